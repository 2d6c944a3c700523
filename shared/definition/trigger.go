package definition

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// httpTrigger reads a trigger that is called over HTTP.
func (r *reader) httpTrigger(t *spec.Trigger) yamldoc.Field {
	return yamldoc.Named("httpTrigger", r.Object(r.triggerFields(t, r.name(&t.Name).Required("name the trigger: it is called at /hooks/TENANT/NAME"), yamldoc.Fields{
		"verify": r.verification(&t.Verify),
		"schema": r.schema(&t.Schema),
		"form":   yamldoc.Optional(&t.Form, r.form),
	})).Finally(func(_ ast.Node, path string) {
		switch has := func(name string) bool { return r.Has(path + "." + name) }; {
		case !has("form") && !has("verify"):
			r.ReportAt(path, "required", "say how a call proves who makes it: verify with scheme and secret; or form, if everybody may call it")
		case !has("form"):
		case has("verify"):
			r.ReportAt(path+".verify", "conflict", "a form has no proof of who sends it")
		default:
			if !has("rate") {
				r.ReportAt(path+".form", "required", "everybody may send a form: say how often, in rate")
			}
			if !has("schema") {
				r.ReportAt(path+".form", "required", "everybody may send a form: say what, in schema")
			}
			if has("idempotencyKey") && has("form.dedupe") {
				r.ReportAt(path+".form.dedupe", "conflict", "idempotencyKey says which calls are one")
			}
		}
	}))
}

// form reads the settings of a form, with which everybody may call a trigger.
func (r *reader) form(f *spec.Form) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"honeypot": r.checkedText(&f.Honeypot, yamldoc.Schema{"pattern": fieldNameRE.String()}, "format", "want the name of a field: a letter, then letters, digits, - and _, at most 64", fieldNameRE.MatchString),
		"dedupe": yamldoc.Optional(&f.Dedupe, func(d *spec.Dedupe) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"fields": yamldoc.List(r.Reader, &d.Fields, spec.MaxDedupeFields, r.Text).Required("name the fields that tell one call from another"),
				"window": r.duration(&d.Window, time.Second, spec.MaxDedupeWindow).Required("say for how long calls with the same fields are one"),
			})
		}),
		"captcha": yamldoc.Optional(&f.Captcha, func(c *spec.Captcha) yamldoc.Field {
			return r.Object(yamldoc.Fields{
				"provider": yamldoc.Enum(r.Reader, &c.Provider, spec.CaptchaTurnstile).Required("name the provider"),
				"secret":   r.triggerSecret(&c.Secret),
				"siteKey":  r.shortText(&c.SiteKey).Required("give the site key, which everybody may know"),
			})
		}),
		"message": r.checkedText(&f.Message, yamldoc.Schema{"maxLength": spec.MaxFormMessage}, "too_long", fmt.Sprintf("want at most %d characters", spec.MaxFormMessage), func(text string) bool {
			return utf8.RuneCountInString(text) <= spec.MaxFormMessage
		}),
	}).Finally(func(_ ast.Node, path string) {
		if f.Captcha != nil && f.Honeypot == f.Captcha.Provider.Field() {
			r.ReportAt(path+".honeypot", "conflict", "the captcha has this field")
		}
		if f.Dedupe != nil && len(f.Dedupe.Fields) == 0 && r.Has(path+".dedupe.fields") {
			r.ReportAt(path+".dedupe.fields", "required", "name the fields that tell one call from another")
		}
	})
}

var fieldNameRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// triggerSecret reads the name of a secret of triggers.
func (r *reader) triggerSecret(into *string) yamldoc.Field {
	return r.checkedText(into, yamldoc.Schema{"pattern": "^" + workflow.TriggerSecretPrefix}, "format",
		"want the name of a secret that begins with "+workflow.TriggerSecretPrefix+": who serves triggers may read no others", func(name string) bool {
			return strings.HasPrefix(name, workflow.TriggerSecretPrefix) && workflow.ValidSecretName(name)
		}).Required("name the secret")
}

// eventTrigger reads a trigger that takes events. One without a name has that of its workflow.
func (r *reader) eventTrigger(t *spec.Trigger) yamldoc.Field {
	return yamldoc.Named("eventTrigger", r.Object(r.triggerFields(t, r.name(&t.Name), yamldoc.Fields{
		"pattern": r.Raw(&t.Pattern, true).Then(r.Reader, func(_ ast.Node, path string) {
			_, issues := eventpattern.Parse(t.Pattern)
			for _, i := range issues {
				r.ReportAt(path+i.Path, i.Code, "%s", i.Message)
			}
		}).Required("say which events it takes, with a pattern of EventBridge"),
	})))
}

// triggerFields adds the fields of all triggers to those of one kind.
func (r *reader) triggerFields(t *spec.Trigger, name yamldoc.Field, own yamldoc.Fields) yamldoc.Fields {
	maps.Copy(own, yamldoc.Fields{
		"name":                name,
		"parameters":          r.Raw(&t.Parameters, true),
		"executeOnParameters": r.Raw(&t.ExecuteOnParameters, true).Then(r.Reader, r.checkSelectorFields).WithSchema(selectorSchema),
		"idempotencyKey":      r.expr(&t.IdempotencyKey),
		"key":                 r.expr(&t.Key),
		"signal": r.checkedText(&t.Signal, yamldoc.Schema{"pattern": workflow.SignalNamePattern}, "format",
			"want a letter or _, then letters, digits, _ . and -, at most 64", workflow.ValidSignalName),
		"rate":     r.rate(&t.Rate),
		"disabled": r.Bool(&t.Disabled),
	})
	return own
}

func (r *reader) verification(v *workflow.Verification) yamldoc.Field {
	return r.Object(yamldoc.Fields{
		"scheme":    yamldoc.Enum(r.Reader, &v.Scheme, workflow.VerifyHMAC, workflow.VerifyStripe, workflow.VerifyGitHub, workflow.VerifyToken).Required("name the scheme"),
		"secret":    r.triggerSecret(&v.Secret),
		"header":    r.checkedText(&v.Header, yamldoc.Schema{"pattern": headerNameRE.String()}, "format", "this is not a valid header name", headerNameRE.MatchString),
		"tolerance": r.duration(&v.Tolerance, time.Second, workflow.MaxTolerance),
	}).Finally(func(_ ast.Node, path string) {
		if v.Scheme != "" && !v.Timed() && r.Has(path+".tolerance") {
			r.ReportAt(path+".tolerance", "conflict", "calls of the scheme %s have no time", v.Scheme)
		}
	})
}

// rate reads a rate such as 60/1m.
func (r *reader) rate(into *workflow.Rate) yamldoc.Field {
	var text string
	return r.Text(&text).WithSchema(yamldoc.Schema{"pattern": workflow.RatePattern}).Then(r.Reader, func(n ast.Node, path string) {
		rate, err := workflow.ParseRate(text)
		if err != nil {
			r.Report(n, path, "rate", "%v", err)
			return
		}
		*into = rate
	})
}

// checkTriggers checks what needs all triggers, or a whole trigger.
func (r *reader) checkTriggers(d *spec.Definition) {
	first := map[string]string{}
	for i, t := range d.Triggers.All() {
		path := d.Triggers.Path(i)
		if t.TakesEvents() {
			t.Name = cmp.Or(t.Name, d.Name)
		}
		if at, taken := first[t.Name]; taken && t.Name != "" {
			r.ReportAt(path+".name", "duplicate", "the name %q is taken by %s", t.Name, at)
		} else {
			first[t.Name] = path
		}
		if t.Signal != "" && t.Key == "" {
			r.ReportAt(path+".signal", "required", "a signal goes to the execution that has a key: say which, in key")
		}
	}
}
