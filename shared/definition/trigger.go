package definition

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// httpTrigger reads a trigger that is called over HTTP.
func (r *reader) httpTrigger(t *spec.Trigger) yamldoc.Field {
	return yamldoc.Named("httpTrigger", r.Object(yamldoc.Fields{
		"name":                r.name(&t.Name).Required("name the trigger: it is called at /hooks/TENANT/NAME"),
		"verify":              r.verification(&t.Verify).Required("say how a call proves who makes it: scheme and secret"),
		"schema":              r.schema(&t.Schema),
		"parameters":          r.Raw(&t.Parameters, true),
		"executeOnParameters": r.Raw(&t.ExecuteOnParameters, true).Then(r.Reader, r.checkSelectorFields).WithSchema(selectorSchema),
		"idempotencyKey":      r.expr(&t.IdempotencyKey),
		"key":                 r.expr(&t.Key),
		"signal": r.checkedText(&t.Signal, yamldoc.Schema{"pattern": workflow.SignalNamePattern}, "format",
			"want a letter or _, then letters, digits, _ . and -, at most 64", workflow.ValidSignalName),
		"rate":     r.rate(&t.Rate),
		"disabled": r.Bool(&t.Disabled),
	}))
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
	for i := range d.Triggers.HTTP {
		t, path := &d.Triggers.HTTP[i], fmt.Sprintf("triggers.http[%d]", i)
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
