package command

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"kruntimes.io/kruntimes/test/cluster/images"
)

// imagesCommand writes the archives of kruntimes' own images.
func imagesCommand() *cobra.Command {
	var binaries, output, tag string
	cmd := &cobra.Command{Use: "images", Short: "Write the images of kruntimes as archives", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&binaries, "binaries", "bin", "The `directory` of the binaries")
	cmd.Flags().StringVar(&output, "output", "bin/images", "The `directory` of the archives")
	cmd.Flags().StringVar(&tag, "tag", "dev", "The `tag` of the images")
	var roots map[string]string
	cmd.Flags().StringToStringVar(&roots, "system", nil, "Also `name=archive`: image kruntimes/name of the root file system in archive")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		wanted := map[string]images.Image{
			"controlplane": images.ControlPlane("kruntimes/controlplane:"+tag, binaries),
			"node":         images.Node("kruntimes/node:"+tag, binaries),
		}
		for name, root := range roots {
			wanted[name] = images.System("kruntimes/"+name+":"+tag, root, "/bin/bash")
		}
		for name, image := range wanted {
			archive := filepath.Join(output, name+".tar")
			if err := images.Write(archive, image); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), archive)
		}
		return nil
	}
	return cmd
}
