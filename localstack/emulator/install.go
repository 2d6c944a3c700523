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

// ErrUnavailable is the error of a machine that can run LocalStack in neither way.
var ErrUnavailable = errors.New("no Python of version 3.13 or newer (looked for PYTHON, python3.14, python3.13, python3 and those of pyenv) " +
	"and no Docker daemon that answers")

// pythonVersionCheck asks a Python whether LocalStack runs on it, and can be installed for it:
// some systems have these parts in packages of their own. LocalStack's packages claim
// to run on 3.10, and use what came with 3.13.
const pythonVersionCheck = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 13))"

// findPython finds an interpreter that is new enough; "" if there is none.
func findPython(ctx context.Context) string {
	candidates := []string{os.Getenv("PYTHON"), "python3.14", "python3.13", "python3"}
	pyenv := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); pyenv == "" && err == nil {
		pyenv = filepath.Join(home, ".pyenv")
	}
	installed, err := filepath.Glob(filepath.Join(pyenv, "versions", "3.*", "bin", "python"))
	if err == nil { // the pattern is sound
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

// install makes a virtual environment with what the lock file says, unless the
// folder holds it already, and lays the parts beside it.
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

// writePythonFiles writes the Python parts into the folder.
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
