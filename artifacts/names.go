package artifacts

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// MaxNameBytes bounds the name of an artifact, as file systems do. Unit: bytes.
const MaxNameBytes = 255

// maxOwner bounds an owner.json. Unit: bytes.
const maxOwner = 16 << 10

// The names of which paths in a store are made.
const (
	// RunsDirectory holds a directory for each Run.
	RunsDirectory = "runs"
	// ContentDirectory holds the artifacts of a Run.
	ContentDirectory = "artifacts"
	// OwnerFile says whose the artifacts of a Run are.
	OwnerFile = "owner.json"
)

// CheckName tells whether an artifact may have a name: 1 to 255 bytes of UTF-8, neither "." nor "..", without slashes and
// control characters. All other names come back as they were given. The error names the name, quoted.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("an artifact must have a name")
	case len(name) > MaxNameBytes:
		return fmt.Errorf("artifact name %q has %d bytes, more than %d", name, len(name), MaxNameBytes)
	case name == "." || name == "..":
		return fmt.Errorf("artifact name %q is that of a directory in every directory", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("artifact name %q is not UTF-8", name)
	case strings.Contains(name, "/"):
		return fmt.Errorf("artifact name %q holds a slash", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("artifact name %q holds a control character", name)
	}
	return nil
}

// Digest returns what a hash came to, SHA-256, as addresses of artifacts say it.
func Digest(of hash.Hash) string { return "sha256:" + hex.EncodeToString(of.Sum(nil)) }

// ReadOwner reads an owner.json, and no more of it than one may have.
func ReadOwner(from io.Reader) (owner Owner, err error) {
	if err := json.NewDecoder(io.LimitReader(from, maxOwner)).Decode(&owner); err != nil {
		return owner, fmt.Errorf("decoding %s: %w", OwnerFile, err)
	}
	return owner, nil
}

// CheckRun tells whether run is a UID as the API server makes them: only such ones become parts of paths.
func CheckRun(run types.UID) error {
	const shape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(run) != len(shape) {
		return fmt.Errorf("%q is not the UID of a Run", run)
	}
	for i := range len(shape) {
		c := run[i]
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if shape[i] == '-' && c != '-' || shape[i] == 'x' && !hex {
			return fmt.Errorf("%q is not the UID of a Run", run)
		}
	}
	return nil
}

// Path returns where an artifact lies below the root or prefix of a store. The Run and the name must have been checked.
func Path(run types.UID, name string) string {
	return path.Join(RunsDirectory, string(run), ContentDirectory) + "/" + name
}

// ParsePath takes a path apart that Path has made. Errors: ErrOutside for any other.
func ParsePath(rel string) (run types.UID, name string, err error) {
	rest, below := strings.CutPrefix(rel, RunsDirectory+"/")
	uid, name, found := strings.Cut(rest, "/"+ContentDirectory+"/")
	if !below || !found || CheckRun(types.UID(uid)) != nil || CheckName(name) != nil {
		return "", "", fmt.Errorf("path %q: %w", rel, ErrOutside)
	}
	return types.UID(uid), name, nil
}

// CheckRef tells whether ref may be the address of what lies at rel in a store of the driver: ref names the driver, rel
// has the shape of an artifact's path, and ends in its name. Errors: ErrOutside.
func CheckRef(ref corev1alpha1.ArtifactRef, driver corev1alpha1.ArtifactDriver, rel string) error {
	if ref.Driver != driver {
		return fmt.Errorf("an artifact of driver %q: %w", ref.Driver, ErrOutside)
	}
	_, name, err := ParsePath(rel)
	if err != nil {
		return err
	}
	if name != ref.Name {
		return fmt.Errorf("artifact %q at path %q: %w", ref.Name, rel, ErrOutside)
	}
	return nil
}

// CheckObject tells whether Put may store object.
func CheckObject(object Object) error {
	if err := CheckRun(object.Run); err != nil {
		return err
	}
	if err := CheckName(object.Name); err != nil {
		return err
	}
	if object.Type != corev1alpha1.ArtifactFile && object.Type != corev1alpha1.ArtifactDirectory {
		return fmt.Errorf("artifact %q is of the unknown type %q", object.Name, object.Type)
	}
	return nil
}
