package emulator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed emulator/*.py
var pythonFiles embed.FS

//go:embed requirements.lock
var requirementsLock []byte

// ErrUnavailable is the error of a machine that can run LocalStack in neither mode.
var ErrUnavailable = errors.New("no Python 3.13 or newer (tried $PYTHON, python3.14, python3.13, python3 and pyenv) " +
	"and no running Docker daemon")

// pythonVersionCheck exits with 0 if LocalStack can be installed and run with a Python.
// Some systems package ensurepip and venv separately. LocalStack's packages claim to
// support 3.10 but need 3.13.
const pythonVersionCheck = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 13))"

// findPython finds a Python that is new enough; "" if there is none.
func findPython(ctx context.Context) string {
	candidates := []string{os.Getenv("PYTHON"), "python3.14", "python3.13", "python3"}
	pyenv := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); pyenv == "" && err == nil {
		pyenv = filepath.Join(home, ".pyenv")
	}
	installed, err := filepath.Glob(filepath.Join(pyenv, "versions", "3.*", "bin", "python"))
	if err == nil { // the pattern is valid
		slices.Reverse(installed)
		candidates = append(candidates, installed...)
	}
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
		if exec.CommandContext(ctx, candidate, "-c", pythonVersionCheck).Run() == nil {
			return candidate
		}
	}
	return ""
}

// install writes the Python files and creates a virtual environment with the packages
// of the lock file, unless the directory already has it.
func install(ctx context.Context, interpreter, dir string, log io.Writer) error {
	if err := writePythonFiles(dir); err != nil {
		return err
	}
	sum := sha256.Sum256(requirementsLock)
	want, mark := []byte(hex.EncodeToString(sum[:])), filepath.Join(dir, "installed")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	}
	venv := filepath.Join(dir, "venv")
	if err := os.RemoveAll(venv); err != nil {
		return err
	}
	file := filepath.Join(dir, "requirements.lock")
	if err := os.WriteFile(file, requirementsLock, 0o600); err != nil {
		return err
	}
	for _, command := range [][]string{
		{interpreter, "-m", "venv", venv},
		{filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
			"--require-hashes", "--no-deps", "-r", file},
	} {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.MultiWriter(log, &output), io.MultiWriter(log, &output)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("install LocalStack: %s: %w\n%s", strings.Join(command[:3], " "), err, output.String())
		}
	}
	return os.WriteFile(mark, want, 0o600)
}

// writePythonFiles writes the embedded Python files into the directory.
func writePythonFiles(dir string) error {
	return fs.WalkDir(pythonFiles, ".", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o750))
		}
		text, err := pythonFiles.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
}
