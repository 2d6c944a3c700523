package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// checkTree refuses a working tree that is not, byte for byte, the commit with the tag of the
// version: whoever has the release has to find its source there.
func checkTree(dir, version string) error {
	tags, err := git(dir, "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	if all := strings.Fields(tags); !slices.Contains(all, version) {
		return fmt.Errorf("this commit has not the tag %s (it has %s): git tag %s on what is released, or make release TRIAL=1 to try", version, orNone(all), version)
	}
	changes, err := git(dir, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the working tree is not %s: commit or remove what differs, or make release TRIAL=1 to try\n%s", version, strings.TrimRight(changes, "\n"))
	}
	return nil
}

func orNone(tags []string) string {
	if len(tags) == 0 {
		return "none"
	}
	return strings.Join(tags, ", ")
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...) // #nosec G204 -- git, with arguments of this program
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
