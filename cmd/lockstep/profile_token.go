package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxTokenBytes bounds a token.
const maxTokenBytes = 16 << 10

// tokenLife is how long a program's token is used before the program runs again. Such programs
// cache their token and renew it shortly before it expires.
const tokenLife = time.Minute

// Token returns the function that supplies the bearer token of the profile, nil if it has none. It
// reads and runs nothing before a token is needed.
func (f profileFile) Token(name string, getenv func(string) string, now func() time.Time, stderr io.Writer) func(context.Context) (string, error) {
	p := f.Profiles[name]
	switch {
	case p.TokenEnv != "":
		return func(context.Context) (string, error) {
			token := getenv(p.TokenEnv)
			if token == "" {
				return "", workflow.Errorf(workflow.CodeUnauthorized, "the variable %s is empty, from which the profile %s takes its token", p.TokenEnv, name)
			}
			return checkToken(token, "the variable "+p.TokenEnv)
		}
	case len(p.TokenCommand) > 0:
		var mutex sync.Mutex
		var token string
		var since time.Time
		return func(ctx context.Context) (string, error) {
			mutex.Lock()
			defer mutex.Unlock()
			if token != "" && now().Sub(since) < tokenLife {
				return token, nil
			}
			if err := f.onlyMine(); err != nil {
				return "", err
			}
			t, err := runTokenCommand(ctx, p.TokenCommand, stderr)
			if err != nil {
				return "", err
			}
			token, since = t, now()
			return token, nil
		}
	}
	return nil
}

// onlyMine refuses a file that others may write, because they could name a program.
func (f profileFile) onlyMine() error {
	info, err := os.Stat(f.Path)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 { // the mode means nothing there
		return workflow.Errorf(workflow.CodeUnauthorized, "others may write %s: its tokenCommand is not executed; chmod go-w %s", f.Path, f.Path)
	}
	return nil
}

// runTokenCommand runs a program, without a shell, and returns the line that it prints.
func runTokenCommand(ctx context.Context, words []string, stderr io.Writer) (string, error) {
	p := exec.CommandContext(ctx, words[0], words[1:]...)
	out := &limitedBuffer{}
	p.Stdout, p.Stderr, p.WaitDelay = out, stderr, time.Second
	if err := p.Run(); err != nil {
		return "", workflow.Errorf(workflow.CodeUnauthorized, "the tokenCommand %s has failed: %w", words[0], err)
	}
	return checkToken(string(bytes.TrimSpace(out.kept)), "the tokenCommand "+words[0])
}

// limitedBuffer keeps the first bytes, one more than the longest token.
type limitedBuffer struct{ kept []byte }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), maxTokenBytes+1-len(b.kept))]...)
	return len(p), nil
}

// checkToken refuses a text that cannot be a token. The error does not contain the text.
func checkToken(token, from string) (string, error) {
	if !workflow.IsVisible(token, maxTokenBytes) {
		return "", workflow.Errorf(workflow.CodeUnauthorized, "%s gives no token: want one line of at most %d bytes", from, maxTokenBytes)
	}
	return token, nil
}

// Describe describes how requests with the profile are authorised, without any secret.
func (p userProfile) Describe() string {
	switch {
	case p.TokenEnv != "":
		return "token from the variable " + p.TokenEnv
	case len(p.TokenCommand) > 0:
		return fmt.Sprintf("token from the program %s", p.TokenCommand[0])
	case p.Auth == authIAM && p.AWSProfile != "":
		return "iam, AWS profile " + p.AWSProfile
	case p.Auth == "" && p.AWSProfile != "":
		return "signed where API Gateway asks for it, AWS profile " + p.AWSProfile
	}
	return p.Auth
}
