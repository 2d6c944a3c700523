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

// CaptchaCheck asks the provider of a captcha whether it was solved. A provider that does not answer is
// an error. The same idempotency key, a UUID, has the same answer, although a solution is good for once.
type CaptchaCheck func(ctx context.Context, provider spec.CaptchaProvider, secret, solution, idempotencyKey string) (solved bool, err error)

// Form is what everybody may know of a form, to fill it in. One that does not exist or is off is
// CodeNotFound, as is a trigger that is no form.
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

// serveForm starts what somebody has sent with a form. Nothing proves who he is, so what costs least
// comes first, and what is no form, or is refused by its schema or captcha, takes nothing of the rate
// that all share.
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
		_ = json.Unmarshal(fields[f.Captcha.Provider.Field()], &solution) // of another type it is none
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
	c.call.Headers["content-type"] = "application/json" // as it is now
	if f.Dedupe != nil {
		c.dedupe = dedupeKey(f.Dedupe.Fields, fields)
	}
	c.allowed = func(ctx context.Context) error {
		if f.Captcha != nil {
			if err := c.checkCaptcha(ctx, f.Captcha, solution); err != nil {
				return err
			}
			if known, err := c.known(ctx); known || err != nil {
				return err // who has solved one cannot use up the rate with it
			}
		}
		return c.takeRate(ctx)
	}
	return c.start(ctx)
}

// formTexts are what a stranger is told of a form that is not taken; nothing of why.
var formTexts = map[workflow.Code]string{
	workflow.CodeInvalid:     "the form does not fit",
	workflow.CodeTooLarge:    "the form is too large",
	workflow.CodeForbidden:   "the form is not open",
	workflow.CodeRateLimited: "the form was sent too often: try again later",
	workflow.CodeUnavailable: "the form cannot be taken now: try again later",
}

// answerForm is what a stranger is told who has sent a form. It is the same for what is taken, for what
// was taken before, for what a machine has filled in, and for what is refused because of an execution
// that is there: nobody learns from it what others have sent. The history of the trigger has what it was.
func (c *triggered) answerForm(receipt views.TriggerReceipt, err error) (views.TriggerReceipt, error) {
	message := c.trigger.Trigger.Form.Message
	if err == nil {
		return views.TriggerReceipt{ID: receipt.ID, Form: true, Message: message}, nil
	}
	told := &workflow.Error{Code: workflow.CodeOf(err), Cause: err}
	var coded *workflow.Error
	switch told.Code {
	case workflow.CodeInternal:
		return views.TriggerReceipt{}, err // the API says nothing of it
	case workflow.CodeConflict, workflow.CodeIdempotencyMismatch, workflow.CodeIllegalTransition, workflow.CodeLimit:
		return views.TriggerReceipt{Form: true, Message: message}, nil
	case workflow.CodeInvalid:
		if errors.As(err, &coded) {
			for _, i := range coded.Issues { // not those of what the trigger makes of it
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

// captchaRate bounds how often the provider of a captcha is asked for a form, solved or not, so that
// few processes wait for one that is slow. A form whose own rate is faster has that.
var captchaRate = workflow.Rate{Count: 5, Per: time.Second}

// takeCaptchaRate takes one of what captchaRate allows.
func (c *triggered) takeCaptchaRate(ctx context.Context) error {
	rate := captchaRate
	if own := c.trigger.Trigger.EffectiveRate(); own.Each() < rate.Each() {
		rate = own
	}
	sequence, wait, err := c.e.OpenPorts().Registry.TakeRate(ctx, c.caller.Tenant, "captcha/"+c.name, rate, 0, c.now)
	if err == nil && sequence == 0 {
		err = &workflow.Error{Code: workflow.CodeRateLimited, Message: "captchas of the form are checked " + rate.String(), RetryAfter: wait}
	}
	return err
}

// checkCaptcha asks the provider whether a captcha was solved, with one call. A solution is good for one
// call of the trigger: the same again is the same call.
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

// formFields are the fields of a form, which comes as JSON or as a browser sends it.
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

// dedupeKey is the same for calls with the same values of the fields: a text in other letters, or with
// spaces around it, is the same.
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
	raw, _ := workflow.EncodeJSON(all) // texts always have a JSON form
	return string(raw)
}
