// Command rooms checks that every package of the module imports only what its room may import.
//
// The rooms, their order and what each must never know are in table.go.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rooms:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	packages, err := list()
	if err != nil {
		return err
	}
	bad := 0
	for _, p := range packages {
		for _, line := range check(p) {
			fmt.Fprintln(out, line)
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d imports run the wrong way; the rooms are in hack/rooms/table.go", bad)
	}
	fmt.Fprintf(out, "rooms: %d packages import only what stands above them\n", len(packages))
	return nil
}

// list returns the packages of the module in the current directory.
func list() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	raw, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var packages []pkg
	decoder := json.NewDecoder(raw)
	for {
		var p pkg
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	if len(packages) == 0 {
		return nil, errors.New("there is no package here; run this from the root of the module")
	}
	return packages, nil
}
