package definition

import (
	"maps"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/eventpattern"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// httpTrigger reads a trigger that is called over HTTP.
func (r *reader) httpTrigger(t *spec.Trigger) yamldoc.Field {
	return yamldoc.Named("httpTrigger", r.Object(r.triggerFields(t, "name the trigger: it is called at /hooks/TENANT/NAME", yamldoc.Fields{
		"verify": r.verification(&t.Verify).Required("say how a call proves who makes it: scheme and secret"),
		"schema": r.schema(&t.Schema),
	})))
}

// eventTrigger reads a trigger that takes events.
func (r *reader) eventTrigger(t *spec.Trigger) yamldoc.Field {
	return yamldoc.Named("eventTrigger", r.Object(r.triggerFields(t, "name the trigger: its events are listed under the name", yamldoc.Fields{
		"pattern": r.Raw(&t.Pattern, true).Then(r.Reader, func(_ ast.Node, path string) {
			_, issues := eventpattern.Parse(t.Pattern)
			for _, i := range issues {
				r.ReportAt(path+i.Path, i.Code, "%s", i.Message)
			}
		}).Required("say which events it takes, with a pattern of EventBridge"),
	})))
}

// triggerFields adds the fields of all triggers to those of one kind.
func (r *reader) triggerFields(t *spec.Trigger, nameHint string, own yamldoc.Fields) yamldoc.Fields {
	maps.Copy(own, yamldoc.Fields{
		"name":                r.name(&t.Name).Required(nameHint),
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
		"scheme": yamldoc.Enum(r.Reader, &v.Scheme, workflow.VerifyHMAC, workflow.VerifyStripe, workflow.VerifyGitHub, workflow.VerifyToken).Required("name the scheme"),
		"secret": r.checkedText(&v.Secret, yamldoc.Schema{"pattern": "^" + workflow.TriggerSecretPrefix}, "format",
			"want the name of a secret that begins with "+workflow.TriggerSecretPrefix+": who serves triggers may read no others", func(name string) bool {
				return strings.HasPrefix(name, workflow.TriggerSecretPrefix) && workflow.ValidSecretName(name)
			}).Required("name the secret"),
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

// checkTriggers checks what needs all triggers, or the whole of one.
func (r *reader) checkTriggers(d *spec.Definition) {
	first := map[string]string{}
	for i, t := range d.Triggers.All() {
		path := d.Triggers.Path(i)
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
