package enginehost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// turnstile is the URL at which Turnstile verifies a solved captcha.
const turnstile = "https://challenges.cloudflare.com/turnstile/v0/siteverify"

const (
	captchaTimeout   = 5 * time.Second
	maxCaptchaAnswer = 64 << 10
)

// captchaURL returns the provider's URL. Only a local stack may name another host.
func captchaURL() string {
	if url := os.Getenv(topology.EnvCaptchaURL); url != "" && os.Getenv(topology.EnvTrustHeaders) == "true" {
		return url
	}
	return turnstile
}

// NewCaptchaCheck asks the provider at the URL. It follows no redirects.
func NewCaptchaCheck(to string) engine.CaptchaCheck {
	client := &http.Client{Timeout: captchaTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context, _ spec.CaptchaProvider, secret, solution, idempotencyKey string) (bool, error) {
		form := url.Values{"secret": {secret}, "response": {solution}, "idempotency_key": {idempotencyKey}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
		if err != nil {
			return false, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		reply, err := client.Do(req)
		if err != nil {
			return false, fmt.Errorf("the provider cannot be called: %w", err)
		}
		defer reply.Body.Close()
		var answer struct {
			Success *bool    `json:"success"`
			Codes   []string `json:"error-codes"`
		}
		raw, err := io.ReadAll(io.LimitReader(reply.Body, maxCaptchaAnswer))
		if err != nil {
			return false, err
		}
		if json.Unmarshal(raw, &answer) != nil || answer.Success == nil {
			return false, fmt.Errorf("the provider has answered with status %d", reply.StatusCode)
		}
		for _, code := range answer.Codes {
			switch code {
			case "missing-input-secret", "invalid-input-secret", "internal-error", "bad-request":
				return false, fmt.Errorf("the provider could not check it: %s", code)
			}
		}
		return *answer.Success, nil
	}
}
