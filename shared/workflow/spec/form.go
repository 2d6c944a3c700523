package spec

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Form lets everybody send what a form has, without a proof of who he is.
type Form struct {
	Honeypot string   `json:"honeypot,omitempty"` // field that people do not see: what fills it in is ignored
	Dedupe   *Dedupe  `json:"dedupe,omitempty"`
	Captcha  *Captcha `json:"captcha,omitempty"`
	Message  string   `json:"message,omitempty"` // of the answer
}

// Dedupe makes calls with the same fields within a time one.
type Dedupe struct {
	Fields []string          `json:"fields"`
	Window workflow.Duration `json:"window"`
}

// Captcha is checked with its provider before anything is started.
type Captcha struct {
	Provider CaptchaProvider `json:"provider"`
	Secret   string          `json:"secret"`  // name, which begins with [workflow.TriggerSecretPrefix]
	SiteKey  string          `json:"siteKey"` // which everybody may know
}

// CaptchaProvider says whether a captcha was solved.
type CaptchaProvider string

// CaptchaTurnstile is Turnstile of Cloudflare.
const CaptchaTurnstile CaptchaProvider = "turnstile"

// Field is the field of a form in which the solution comes.
func (CaptchaProvider) Field() string { return "cf-turnstile-response" }

// Limits of forms.
const (
	MaxDedupeFields = 10
	MaxDedupeWindow = 7 * 24 * time.Hour
	MaxFormMessage  = 500 // characters
)
