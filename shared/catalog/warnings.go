package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// warnings names what in a valid definition does not match what is currently registered. None of it
// is certainly a mistake: a definition may be published before its workers register their blocks.
func (c *Catalog) warnings(ctx context.Context, tenant string, d *spec.Definition, source []byte) ([]workflow.Issue, error) {
	w := &warner{ctx: ctx, registry: c.openPorts().Registry, tenant: tenant, blocks: map[string]*workflow.Block{}}
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		var err error
		switch {
		case s.FunctionBlock != "":
			err = w.checkBlock(s.FunctionBlock, s.BlockRunsOn(), s.Parameters, s.RawParameters, paths[i], "functionBlock")
		case s.Reference != nil:
			err = w.checkWorkflow(d, s, paths[i])
		}
		if err == nil {
			err = w.checkCompensation(d, s, paths[i]+".compensate")
		}
		if err != nil {
			return nil, err
		}
	}
	acquires := program.AcquirePaths(d)
	for i, a := range d.Acquisitions() {
		if a.Block == "" {
			continue
		}
		if err := w.checkBlock(a.Block, "", a.Parameters, a.RawParameters, acquires[i], "block"); err != nil {
			return nil, err
		}
	}
	for _, kind := range d.OnEnd.Kinds() {
		if err := w.checkFollowUp(d, d.OnEnd.Of(kind), program.FollowUpPath(kind)); err != nil {
			return nil, err
		}
	}
	if err := w.checkResults(d); err != nil {
		return nil, err
	}
	if err := w.checkFlow(d, paths); err != nil {
		return nil, err
	}
	if err := w.checkUndo(d, paths); err != nil {
		return nil, err
	}
	w.checkParameters(d)
	if err := w.checkInserted(d); err != nil {
		return nil, err
	}
	w.checkSharedLocks(d, paths)
	w.checkCronSeconds(d, source)
	c.checkSecrets(w, d, paths)
	c.checkHosts(w, d, paths)
	w.checkLongWaits(d, paths, longestQuestion, false)
	w.checkRegions(d, paths, c.openPorts().Regions)
	if len(w.issues) == 0 {
		return nil, nil
	}
	return definition.LocateIssues(source, w.issues), nil
}

type warner struct {
	ctx      context.Context
	registry Registry
	tenant   string
	blocks   map[string]*workflow.Block // by reference as written; nil for none
	issues   []workflow.Issue
}

func (w *warner) warn(path, code, format string, args ...any) {
	w.issues = append(w.issues, workflow.Issue{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
}

// checkBlock compares a step's use of a block with the registered block.
func (w *warner) checkBlock(written, runOn string, parameters, raw json.RawMessage, path, field string) error {
	b, err := w.newestBlock(written)
	if err != nil {
		return err
	}
	if b == nil {
		near, err := w.nearestBlock(written)
		if err != nil {
			return err
		}
		w.warn(path+"."+field, "unknown_block", "no registered block matches %s; executions fail until one is registered%s", written, near)
		return nil
	}
	if runOn != "" && b.RunOn != "" && b.RunOn != runOn {
		w.warn(path+".runOn", "run_on", "block %s runs on %s, but the step runs on %s", b.Ref(), b.RunOn, runOn)
	}
	for _, i := range parameterIssues(b.ParameterSchema, parameters, raw, path) {
		w.warn(i.Path, i.Code, "%s (block %s)", i.Message, b.Ref())
	}
	return nil
}

// checkCompensation warns about a compensating block that may leave a doubt, and about one for a
// step where nothing needs to be undone.
func (w *warner) checkCompensation(d *spec.Definition, s *spec.Step, path string) error {
	c := s.Compensate
	switch {
	case c == nil:
		return nil
	case c.Workflow != "":
		exact, found, err := w.checkPublished(d, c.Workflow, path+".workflow")
		if err != nil || !found {
			return err
		}
		return w.checkUndoing(d, exact, path+".workflow")
	}
	if err := w.checkBlock(c.FunctionBlock, s.BlockRunsOn(), c.Parameters, c.RawParameters, path, "functionBlock"); err != nil {
		return err
	}
	if b := w.blocks[s.FunctionBlock]; b != nil && b.Pure {
		w.warn(path, "pure", "block %s is pure, so nothing of the step is ever undone", b.Ref())
	}
	if b := w.blocks[c.FunctionBlock]; b != nil && !b.Repeatable() {
		w.warn(path+".functionBlock", "not_idempotent", "block %s is not idempotent: a compensation that loses its worker leaves the execution FAILED_UNSAFE", b.Ref())
	}
	return nil
}

// checkUndoing warns about a compensating workflow that waits for a person: until somebody answers,
// the rollback stands still, and what it has yet to undo stays locked.
func (w *warner) checkUndoing(d *spec.Definition, exact workflow.Ref, path string) error {
	undoing := d
	if exact != d.Ref() {
		var err error
		if undoing, err = w.published(exact); err != nil {
			return err
		}
	}
	for _, s := range undoing.FlatSteps() {
		if s.Wait != nil && (s.Wait.Input != nil || s.Wait.Approval != nil) {
			w.warn(path, "waits_for_person", "step %q of %s waits for a person: until somebody answers, the rollback stands, and the entities stay locked", s.Label, exact)
			return nil
		}
	}
	return nil
}

// published returns the published definition of a workflow.
func (w *warner) published(exact workflow.Ref) (*spec.Definition, error) {
	published, err := w.registry.Definition(w.ctx, w.tenant, exact)
	if err != nil {
		return nil, err
	}
	d, err := definition.Parse(published.Source)
	if err != nil {
		return nil, fmt.Errorf("the published workflow %s: %w", exact, err)
	}
	return d, nil
}

// nearestBlock returns which block an unmatched reference probably means: another version of it, or
// one with a similar name among the first thousand. "" if there is none.
func (w *warner) nearestBlock(written string) (string, error) {
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return "", err
	}
	list, err := w.registry.Blocks(w.ctx, w.tenant, workflow.Page{Limit: workflow.MaxPageSize})
	if err != nil {
		return "", err
	}
	var names []string
	for _, b := range list.Items {
		names = append(names, b.Ref().FullName())
	}
	if slices.Contains(names, ref.FullName()) {
		return fmt.Sprintf("; there are other versions of %s", ref.FullName()), nil
	}
	return workflow.DidYouMean(ref.FullName(), names), nil
}

// newestBlock returns the newest registered block that matches a reference; nil if there is none.
func (w *warner) newestBlock(written string) (*workflow.Block, error) {
	if b, known := w.blocks[written]; known {
		return b, nil
	}
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return nil, err
	}
	if b, ok := workflow.BuiltinBlock(ref); ok {
		w.blocks[written] = &b
		return &b, nil
	}
	newest, err := NewestVersion(w.ctx, w.registry, w.tenant, workflow.BlockVersions, ref)
	if err != nil {
		return nil, err
	}
	w.blocks[written] = nil
	if newest.Version != "" {
		ref.Version = newest.Version
		if w.blocks[written], err = w.registry.Block(w.ctx, w.tenant, ref); err != nil {
			return nil, err
		}
	}
	return w.blocks[written], nil
}

// checkPublished finds the version of a workflow that a definition means, and warns if there is
// none.
func (w *warner) checkPublished(d *spec.Definition, written, path string) (exact workflow.Ref, found bool, err error) {
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return exact, false, err
	}
	finder := cycleFinder{w.registry, w.tenant, d, nil}
	exact, found, err = finder.resolve(w.ctx, ref)
	if err == nil && !found {
		w.warn(path, "unknown_workflow", "no published workflow matches %s; executions fail until one is published", written)
	}
	return exact, found, err
}

// checkWorkflow warns about a reference to a workflow that is not published, and about an embedded
// one whose config would not apply. A definition may refer to itself.
func (w *warner) checkWorkflow(d *spec.Definition, s *spec.Step, path string) error {
	if among := s.Reference.Among; len(among) > 0 {
		for i, name := range among {
			if _, _, err := w.checkPublished(d, name, fmt.Sprintf("%s.workflowReference.among[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	path += ".workflowReference.workflow"
	exact, found, err := w.checkPublished(d, s.Reference.Workflow, path)
	if err != nil || !found {
		return err
	}
	if _, embeds := definition.EmbeddedRef(s); !embeds || exact == d.Ref() {
		return nil
	}
	embedded, err := w.published(exact)
	if err != nil {
		return err
	}
	if fields := configOfExecution(&embedded.Config); len(fields) > 0 {
		w.warn(path, "embedded_config", "of the config of %s, only maxInFlight and failureTolerance hold where it is embedded, not %s", exact, strings.Join(fields, ", "))
	}
	return nil
}

// checkRegions warns about regions that no pool of the stage is known to serve. Workers may still
// serve them, now or later.
func (w *warner) checkRegions(d *spec.Definition, paths []string, known []string) {
	if known == nil {
		return
	}
	check := func(path, region string) {
		if region == "" || slices.Contains(known, region) {
			return
		}
		names := "no region"
		if len(known) > 0 {
			names = "only " + strings.Join(known, ", ")
		}
		w.warn(path, "unknown_region", "the setting regions of this stage names %s: jobs for %s wait until a worker serves it, and end UNCLAIMED", names, region)
	}
	check("config.region", d.Config.Region)
	for i, s := range d.FlatSteps() {
		if s.Reference != nil {
			check(paths[i]+".workflowReference.region", s.Reference.Region)
		}
	}
}

// configOfExecution lists the fields that a config sets and that apply to an execution as a whole.
// If the definition is embedded, they do not apply.
func configOfExecution(c *spec.Config) (fields []string) {
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"executionStrategy", c.Parallel}, {"onEntityFailure", c.OnEntityFailure == spec.OnEntityFailureLeave}, {"lockMode", c.LockMode == workflow.LockShared}, {"notBefore", c.NotBefore != ""},
		{"onLocked", c.OnLocked != "" && c.OnLocked != spec.OnLockedWait}, {"rollback", c.Rollback == workflow.RollbackNever || c.RollbackContinue},
		{"startWhen", c.StartWhen != ""}, {"timeout", c.Timeout > 0}, {"concurrency", c.Concurrency != nil}, {"rate", c.Rate != nil}, {"region", c.Region != ""}, {"limits", c.Limits != (workflow.RunLimits{})},
	} {
		if field.set {
			fields = append(fields, field.name)
		}
	}
	return fields
}

// literalKeywords are the keywords that a literal value violates, whatever the expressions in other
// parameters evaluate to.
var literalKeywords = map[string]bool{
	"required": true, "additionalProperties": true, "type": true, "enum": true, "const": true, "pattern": true,
	"minimum": true, "maximum": true, "minLength": true, "maxLength": true,
}

// parameterIssues lists where the literal parts of a step's parameters do not match the block's
// schema. The value of an expression is known only when it is evaluated.
func parameterIssues(blockSchema, parameters, raw json.RawMessage, path string) []workflow.Issue {
	given := map[string]any{}
	_ = json.Unmarshal(parameters, &given) // both were read as objects
	rawGiven := map[string]any{}
	_ = json.Unmarshal(raw, &rawGiven)
	value := map[string]any{}
	for name, v := range given {
		value[name] = v
	}
	for name, v := range rawGiven {
		value[name] = v
	}
	merged, err := workflow.EncodeJSON(value)
	if err != nil {
		return nil
	}
	at := path + ".parameters"
	var open []string
	expressionPaths(given, at, &open)
	var found []workflow.Issue
	for _, i := range schema.Validate(blockSchema, merged, at) {
		isOpen := func(o string) bool {
			return hasPathPrefix(i.Path, o) && (i.Path != o || i.Code != "additionalProperties") // a name is known, whatever its value
		}
		if !literalKeywords[i.Code] || slices.ContainsFunc(open, isOpen) {
			continue
		}
		if name, _, _ := strings.Cut(strings.TrimPrefix(i.Path, at+"."), "."); rawGiven[name] != nil {
			i.Path = path + ".rawParameters" + strings.TrimPrefix(i.Path, at)
		}
		found = append(found, i)
	}
	return found
}

// expressionPaths collects the paths of strings that contain expressions.
func expressionPaths(v any, path string, into *[]string) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "${") {
			*into = append(*into, path)
		}
	case []any:
		for i, item := range v {
			expressionPaths(item, fmt.Sprintf("%s[%d]", path, i), into)
		}
	case map[string]any:
		for name, item := range v {
			expressionPaths(item, path+"."+name, into)
		}
	}
}

func hasPathPrefix(path, parent string) bool {
	rest, ok := strings.CutPrefix(path, parent)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// memberExpression finds the fields that an expression reads of a name: name.field.
var memberExpression = regexp.MustCompile(`(?:^|[^.\w])([a-z]\w*)\.([A-Za-z_]\w*)`)

// resultExpression finds the fields that an expression reads of a step's result: label.result.field
// for the same entity, or label.results[id].field for another.
var resultExpression = regexp.MustCompile(`(?:^|[^.\w])([a-z]\w*)\.result(?:s\[[^\[\]]*\])?\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(\()?`)

// resultRead is a field that an expression reads of the result of a step whose block is registered.
type resultRead struct {
	step   string // label
	block  *workflow.Block
	fields []string // from the outermost to the innermost
	method bool     // the last of them is a method call
}

// resultReads lists the fields that an expression reads of the results of steps, by their labels.
func (w *warner) resultReads(steps map[string]*spec.Step, source string) ([]resultRead, error) {
	var all []resultRead
	for _, m := range resultExpression.FindAllStringSubmatch(program.StripHas(program.StripStrings(program.DotFields(source))), -1) {
		s := steps[m[1]]
		if s == nil || s.FunctionBlock == "" || s.Callback != nil { // its result is the answer
			continue
		}
		b, err := w.newestBlock(s.FunctionBlock)
		if err != nil {
			return nil, err
		}
		if b != nil {
			all = append(all, resultRead{step: m[1], block: b, fields: strings.Split(m[2], "."), method: m[3] != ""})
		}
	}
	return all, nil
}

// stepsByLabel returns the steps of a definition, including nested ones.
func stepsByLabel(d *spec.Definition) map[string]*spec.Step {
	steps := map[string]*spec.Step{}
	for _, s := range d.FlatSteps() {
		steps[s.Label] = s
	}
	return steps
}

// checkResults warns about expressions that read a field which a step never has, or which its
// result does not have by the schema of its block. Such a condition would skip every entity.
func (w *warner) checkResults(d *spec.Definition) error {
	steps := stepsByLabel(d)
	for path, source := range program.Expressions(d) {
		for _, m := range memberExpression.FindAllStringSubmatch(program.StripStrings(program.DotFields(source)), -1) {
			if s := steps[m[1]]; s != nil && s.FunctionBlock != "" && !slices.Contains([]string{"result", "results"}, m[2]) {
				w.warn(path, "unknown_field", "step %q has no %q: there are %s.result, %s.results and steps.%s.status", m[1], m[2], m[1], m[1], m[1])
			}
		}
		reads, err := w.resultReads(steps, source)
		if err != nil {
			return err
		}
		for _, r := range reads {
			if r.method {
				r.fields = r.fields[:len(r.fields)-1]
			}
			if name, near := unknownField(r.block.ResultSchema, r.fields); name != "" {
				w.warn(path, "unknown_result", "the result of step %q has no %q by the schema of block %s%s", r.step, name, r.block.Ref(), near)
			}
		}
	}
	return nil
}

var parameterExpression = regexp.MustCompile(`(?:^|[^.\w])parameters\.([A-Za-z_]\w*)(\()?`)

// checkParameters warns about expressions that read a parameter which the definition's schema does
// not declare. If the schema forbids it, it is an error.
func (w *warner) checkParameters(d *spec.Definition) {
	for path, source := range program.Expressions(d) {
		for _, m := range parameterExpression.FindAllStringSubmatch(program.StripHas(program.StripStrings(program.DotFields(source))), -1) {
			if m[2] != "" { // a method call
				continue
			}
			if name, near := unknownField(d.Parameters, m[1:2]); name != "" {
				w.warn(path, "unknown_parameter", "the definition declares no parameter %q%s", name, near)
			}
		}
	}
}

// insertedExpression is an expression that reads one value as a whole: a parameter, a result, or all results of a step.
var insertedExpression = regexp.MustCompile(`^(?:parameters|([a-z]\w*)\.result)((?:\.[A-Za-z_]\w*)*)$|^([a-z]\w*)\.results$`)

// checkInserted warns about texts into which a list or an object is to be inserted: the step fails there.
func (w *warner) checkInserted(d *spec.Definition) error {
	steps := stepsByLabel(d)
	for path, source := range program.Inserted(d) {
		m := insertedExpression.FindStringSubmatch(strings.TrimSpace(source))
		if m == nil {
			continue
		}
		kind := ""
		switch {
		case m[3] != "":
			if s := steps[m[3]]; s != nil && s.Foreach != nil {
				kind = "array"
			} else if s != nil {
				kind = "object"
			}
		case m[1] != "":
			s := steps[m[1]]
			if s == nil || s.FunctionBlock == "" || s.Callback != nil { // its result is the answer
				continue
			}
			b, err := w.newestBlock(s.FunctionBlock)
			if err != nil {
				return err
			}
			if b != nil {
				kind = typeOf(b.ResultSchema, m[2])
			}
		default:
			kind = typeOf(d.Parameters, m[2])
		}
		switch read := strings.TrimSpace(source); kind {
		case "array":
			w.warn(path, "not_text", "%s is a list, which cannot become part of a text: write %s.join(', ')", read, read)
		case "object":
			w.warn(path, "not_text", "%s is an object, which cannot become part of a text: name a field of it", read)
		}
	}
	return nil
}

// checkSharedLocks warns about blocks that are not pure in a definition with shared locks. Its
// executions are refused when they start.
func (w *warner) checkSharedLocks(d *spec.Definition, paths []string) {
	if d.Config.LockMode != workflow.LockShared {
		return
	}
	check := func(written, path string) {
		if b := w.blocks[written]; b != nil && !b.Pure {
			w.warn(path, "not_pure", "block %s is not pure, so with lockMode shared every execution fails", b.Ref())
		}
	}
	for i, s := range d.FlatSteps() {
		check(s.FunctionBlock, paths[i]+".functionBlock")
	}
	acquires := program.AcquirePaths(d)
	for i, a := range d.Acquisitions() {
		check(a.Block, acquires[i]+".block")
	}
}

// checkCronSeconds warns about a schedule with seconds. A deployed service checks schedules once a
// minute.
func (w *warner) checkCronSeconds(d *spec.Definition, source []byte) {
	seconds := func(c *spec.Cron) bool { return c != nil && len(strings.Fields(c.Schedule)) != 5 }
	path := ".schedule"
	if i := slices.IndexFunc(d.Crons, func(c spec.Cron) bool { return seconds(&c) }); i >= 0 {
		path = fmt.Sprintf("[%d]%s", i, path)
	} else if !seconds(d.Cron) {
		return
	}
	at := "cron" // at the root, or in triggers
	if definition.LocateIssues(source, []workflow.Issue{{Path: at + path}})[0].Line == 0 {
		at = "triggers." + at
	}
	path = at + path
	w.warn(path, "seconds", "the schedule has a field for seconds, but a deployed service checks schedules once a minute: write five fields")
}
