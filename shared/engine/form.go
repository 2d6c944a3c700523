package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// CaptchaCheck asks a captcha provider whether a captcha was solved. It returns an error if the
// provider does not answer. A solution is valid only once, but a repeated call with the same
// idempotency key (a UUID) gets the same answer.
type CaptchaCheck func(ctx context.Context, provider spec.CaptchaProvider, secret, solution, idempotencyKey string) (solved bool, err error)

// Form returns what anybody may know about a form in order to fill it in. It returns CodeNotFound
// if the form does not exist or is off, or if the trigger is not a form.
func (e *Engine) Form(ctx context.Context, tenant, name string) (none views.FormView, err error) {
	t, err := e.OpenPorts().Registry.Trigger(ctx, tenant, name)
	if err != nil {
		return none, err
	}
	missing := workflow.Errorf(workflow.CodeNotFound, "there is no form %q", name)
	if t.Trigger == nil || t.Trigger.Form == nil {
		return none, missing
	}
	d, err := e.newWorkspace(tenant, "").definition(ctx, t.Workflow)
	if err != nil {
		return none, err
	}
	for _, one := range d.Triggers.All() {
		if one.Name == name && one.Form != nil {
			return views.NewFormView(tenant, one), nil
		}
	}
	return none, missing
}

// serveForm handles a form that somebody has sent. Nothing proves who the sender is, so the
// cheapest checks come first. A request that is not a valid form, or that the schema or the captcha
// refuses, does not use up the shared rate.
func (c *triggered) serveForm(ctx context.Context) (none views.TriggerReceipt, err error) {
	if c.trigger.Paused != nil {
		return none, errPaused
	}
	f := c.trigger.Trigger.Form
	fields, err := formFields(c.call)
	if err != nil {
		return none, err
	}
	solution := ""
	if f.Captcha != nil {
		_ = json.Unmarshal(fields[f.Captcha.Provider.Field()], &solution) // a value that is not a string counts as no solution
		delete(fields, f.Captcha.Provider.Field())
	}
	trap := fields[f.Honeypot]
	if delete(fields, f.Honeypot); f.Honeypot != "" && len(trap) > 0 && string(trap) != `""` && string(trap) != "null" {
		c.trapped = true
		return none, nil
	}
	if c.call.Body, err = workflow.EncodeJSON(fields); err != nil {
		return none, err
	}
	c.call.Headers["content-type"] = "application/json" // the body is JSON now
	if f.Dedupe != nil {
		c.dedupe = dedupeKey(f.Dedupe.Fields, fields)
	}
	c.allowed = func(ctx context.Context) error {
		if f.Captcha != nil {
			if err := c.checkCaptcha(ctx, f.Captcha, solution); err != nil {
				return err
			}
			if known, err := c.known(ctx); known || err != nil {
				return err // one solved captcha must not use up the rate
			}
		}
		return c.takeRate(ctx)
	}
	return c.start(ctx)
}

// formTexts are the messages for strangers whose form is not accepted. They do not say why.
var formTexts = map[workflow.Code]string{
	workflow.CodeInvalid:     "the form is not filled in as it should be",
	workflow.CodeTooLarge:    "the form is too large",
	workflow.CodeForbidden:   "the form is not open",
	workflow.CodeRateLimited: "the form was sent too often: try again later",
	workflow.CodeUnavailable: "the form cannot be taken now: try again later",
}

// answerForm returns what a stranger is told after sending a form. The answer is the same whether
// the form is accepted, is a duplicate, was filled in by a bot, or conflicts with an existing
// execution, so that nobody learns what others have sent. The trigger's history has the real
// result.
func (c *triggered) answerForm(receipt views.TriggerReceipt, err error) (views.TriggerReceipt, error) {
	message := c.trigger.Trigger.Form.Message
	if err == nil {
		return views.TriggerReceipt{ID: receipt.ID, Form: true, Message: message}, nil
	}
	told := &workflow.Error{Code: workflow.CodeOf(err), Cause: err}
	var coded *workflow.Error
	switch told.Code {
	case workflow.CodeInternal:
		return views.TriggerReceipt{}, err // the API hides internal errors
	case workflow.CodeConflict, workflow.CodeIdempotencyMismatch, workflow.CodeIllegalTransition, workflow.CodeLimit:
		return views.TriggerReceipt{Form: true, Message: message}, nil
	case workflow.CodeInvalid:
		if errors.As(err, &coded) {
			for _, i := range coded.Issues { // leave out issues with what the trigger derives from the form
				if i.Path == "body" || strings.HasPrefix(i.Path, "body.") || strings.HasPrefix(i.Path, "body[") || i.Path == "headers.content-type" {
					told.Issues = append(told.Issues, i)
				}
			}
		}
	case workflow.CodeRateLimited:
		if errors.As(err, &coded) {
			told.RetryAfter = coded.RetryAfter
		}
	case workflow.CodeTooLarge, workflow.CodeForbidden, workflow.CodeUnavailable:
	default:
		told.Code = workflow.CodeUnavailable
	}
	told.Message = formTexts[told.Code]
	return views.TriggerReceipt{}, told
}

// captchaRate bounds how often the provider is asked about captchas of a form, solved or not, so
// that few processes wait for a slow provider. If the form's own rate is faster, that applies
// instead.
var captchaRate = workflow.Rate{Count: 5, Per: time.Second}

// takeCaptchaRate takes one call from captchaRate.
func (c *triggered) takeCaptchaRate(ctx context.Context) error {
	rate := captchaRate
	if own := c.trigger.Trigger.EffectiveRate(); own.Each() < rate.Each() {
		rate = own
	}
	use, err := c.e.OpenPorts().Registry.TakeRate(ctx, c.caller.Tenant, "captcha/"+c.name, rate, 0, c.now)
	if err == nil && use.Sequence == 0 {
		views.ReportRate(ctx, use)
		err = &workflow.Error{Code: workflow.CodeRateLimited, Message: "captchas of the form are checked " + rate.String(), RetryAfter: use.Wait}
	}
	return err
}

// checkCaptcha asks the provider, in one call, whether a captcha was solved. A solution is valid
// for one call of the trigger: a repetition with the same solution counts as the same call.
func (c *triggered) checkCaptcha(ctx context.Context, captcha *spec.Captcha, solution string) error {
	unsolved := workflow.Invalid("the captcha is not solved", []workflow.Issue{{Path: "body." + captcha.Provider.Field(), Code: issueCaptcha, Message: "solve it again"}})
	if solution == "" || len(solution) > maxSolution {
		return unsolved
	}
	if err := c.takeCaptchaRate(ctx); err != nil {
		return err
	}
	if c.e.Secret == nil || c.e.Captcha == nil {
		return workflow.Errorf(workflow.CodeUnavailable, "captchas cannot be checked: this installation has no secrets")
	}
	secret, err := c.e.Secret(ctx, c.caller.Tenant, captcha.Secret)
	if err != nil {
		c.e.Log.ErrorContext(ctx, "secret of a captcha cannot be read", observe.Tenant, c.caller.Tenant, "trigger", c.name, observe.Err(err))
		return workflow.Errorf(workflow.CodeUnavailable, "captchas cannot be checked: the secret cannot be read")
	}
	sum := sha256.Sum256([]byte(solution))
	c.signed = "captcha/" + hex.EncodeToString(sum[:])
	solved, err := c.e.Captcha(ctx, captcha.Provider, secret, solution, workflow.DerivedID(time.Unix(0, 0), c.caller.Tenant+" "+c.name+" "+c.signed))
	if err != nil {
		c.e.Log.WarnContext(ctx, "captcha not checked", observe.Tenant, c.caller.Tenant, "trigger", c.name, observe.Err(err))
		return workflow.Errorf(workflow.CodeUnavailable, "the captcha cannot be checked: try again")
	}
	if !solved {
		return unsolved
	}
	return nil
}

const issueCaptcha = "captcha"

// maxSolution is the longest solution of a captcha, in bytes.
const maxSolution = 2048

// formFields returns the fields of a form, sent as JSON or in the encoding of a browser.
func formFields(call views.TriggerCall) (map[string]json.RawMessage, error) {
	kind, _, err := mime.ParseMediaType(cmp.Or(call.Headers["content-type"], "application/json"))
	if err != nil || kind != "application/json" && kind != "application/x-www-form-urlencoded" {
		return nil, workflow.Invalid("this is no form", []workflow.Issue{{Path: "headers.content-type", Code: "enum", Message: "want application/json or application/x-www-form-urlencoded"}})
	}
	body, err := callBody(call)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil, workflow.Invalid("this is no form", []workflow.Issue{{Path: "body", Code: "type", Message: "want an object of fields"}})
	}
	return fields, nil
}

// dedupeKey returns the same key for calls with the same field values. It ignores case and
// surrounding spaces of strings.
func dedupeKey(names []string, fields map[string]json.RawMessage) string {
	values := map[string]string{}
	for _, name := range names {
		var text string
		if raw := fields[name]; json.Unmarshal(raw, &text) == nil {
			values[name] = "text " + strings.ToLower(strings.TrimSpace(text))
		} else {
			values[name] = "value " + string(raw)
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all = append(all, name, values[name])
	}
	raw, _ := workflow.EncodeJSON(all) // strings can always be encoded as JSON
	return string(raw)
}
