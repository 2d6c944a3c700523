package spec

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Form lets everybody call a trigger with its fields, without authentication.
type Form struct {
	Honeypot string   `json:"honeypot,omitempty"` // field that people do not see: a form that has it filled in is ignored
	Dedupe   *Dedupe  `json:"dedupe,omitempty"`
	Captcha  *Captcha `json:"captcha,omitempty"`
	Message  string   `json:"message,omitempty"` // the response
}

// Dedupe treats calls with the same fields within a time as one.
type Dedupe struct {
	Fields []string          `json:"fields"`
	Window workflow.Duration `json:"window"`
}

// Captcha is checked with its provider before anything is started.
type Captcha struct {
	Provider CaptchaProvider `json:"provider"`
	Secret   string          `json:"secret"`  // name, which begins with [workflow.TriggerSecretPrefix]
	SiteKey  string          `json:"siteKey"` // public
}

// CaptchaProvider checks whether a captcha was solved.
type CaptchaProvider string

// CaptchaTurnstile is Cloudflare's Turnstile.
const CaptchaTurnstile CaptchaProvider = "turnstile"

// Field returns the field of a form that contains the solution.
func (CaptchaProvider) Field() string { return "cf-turnstile-response" }

// Limits of forms.
const (
	MaxDedupeFields = 10
	MaxDedupeWindow = 7 * 24 * time.Hour
	MaxFormMessage  = 500 // characters
)
