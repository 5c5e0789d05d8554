package gitsource

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// errCredentials is the cause of all refusals that only credentials would change.
var errCredentials = errors.New("credentials are not supported in this version")

// checkURL says why address is not one that is fetched from.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("this is not a URL")
	}
	switch {
	case u.Scheme == "ssh":
		return fmt.Errorf("ssh needs a key, and %w: use the https URL of a public repository", errCredentials)
	case u.Scheme != "https" || !strings.HasPrefix(address, "https://"):
		return errors.New("the URL must start with https://")
	case u.User != nil:
		return fmt.Errorf("%w: leave the user name and password out of the URL", errCredentials)
	case u.Hostname() == "":
		return errors.New("the URL names no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("the URL must end with the path of the repository, without ? and #")
	}
	return nil
}

// shownURL is address without a password.
func shownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the URL"
	}
	return u.Redacted()
}
