package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// warnings tell what in a valid definition does not fit what is registered now.
// Nothing of it is a mistake for certain: blocks and workflows may still come, so
// a definition may be published before its worker is there.
func (c *Catalog) warnings(ctx context.Context, tenant string, d *spec.Definition, source []byte) ([]workflow.Issue, error) {
	w := &warner{ctx: ctx, registry: c.openPorts().Registry, tenant: tenant, blocks: map[string]*workflow.Block{}}
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		var err error
		switch {
		case s.FunctionBlock != "":
			err = w.checkBlock(s.FunctionBlock, s.RunOn, s.Parameters, s.RawParameters, paths[i], "functionBlock")
		case s.Reference != nil:
			err = w.checkWorkflow(d, s.Reference.Workflow, paths[i])
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
	if err := w.checkResults(d); err != nil {
		return nil, err
	}
	w.checkSharedLocks(d, paths)
	w.checkCronSeconds(d, source)
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

// checkBlock compares what a step says of a block with how that is registered.
func (w *warner) checkBlock(written, runOn string, parameters, raw json.RawMessage, path, field string) error {
	b, err := w.newestBlock(written)
	if err != nil {
		return err
	}
	if b == nil {
		w.warn(path+"."+field, "unknown_block", "no registered block matches %s; runs fail until one is registered", written)
		return nil
	}
	if runOn != "" && b.RunOn != "" && b.RunOn != runOn {
		w.warn(path+".runOn", "run_on", "block %s runs on %s, and the step on %s", b.Ref(), b.RunOn, runOn)
	}
	for _, i := range parameterIssues(b.ParameterSchema, parameters, raw, path) {
		w.warn(i.Path, i.Code, "%s (block %s)", i.Message, b.Ref())
	}
	return nil
}

// newestBlock is the newest registered block that a reference means.
func (w *warner) newestBlock(written string) (*workflow.Block, error) {
	if b, known := w.blocks[written]; known {
		return b, nil
	}
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return nil, err
	}
	versions, err := w.registry.BlockVersions(w.ctx, w.tenant, ref.FullName())
	if err != nil {
		return nil, err
	}
	var numbers []string
	for _, b := range versions {
		numbers = append(numbers, b.Version)
	}
	newest := ref.Newest(numbers)
	w.blocks[written] = nil
	if i := slices.IndexFunc(versions, func(b workflow.Block) bool { return b.Version == newest }); i >= 0 {
		w.blocks[written] = &versions[i]
	}
	return w.blocks[written], nil
}

// checkWorkflow warns of a reference to what is not published. A definition may refer
// to itself.
func (w *warner) checkWorkflow(d *spec.Definition, written, path string) error {
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return err
	}
	to := cycleFinder{w.registry, w.tenant, d, nil}
	_, found, err := to.resolve(w.ctx, ref)
	if err == nil && !found {
		w.warn(path+".workflowReference.workflow", "unknown_workflow", "no published workflow matches %s; runs fail until one is published", written)
	}
	return err
}

// literalKeywords are the keywords that a literal value breaks whatever the expressions
// beside it come to.
var literalKeywords = map[string]bool{
	"required": true, "additionalProperties": true, "type": true, "enum": true, "const": true, "pattern": true,
	"minimum": true, "maximum": true, "minLength": true, "maxLength": true,
}

// parameterIssues are where the literal part of a step's parameters does not fit the
// block's schema. What an expression gives is only known when it is evaluated.
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
	merged, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	at := path + ".parameters"
	var open []string
	expressionPaths(given, at, &open)
	var found []workflow.Issue
	for _, i := range schema.Validate(blockSchema, merged, at) {
		if !literalKeywords[i.Code] || slices.ContainsFunc(open, func(o string) bool { return hasPathPrefix(i.Path, o) }) {
			continue
		}
		if name, _, _ := strings.Cut(strings.TrimPrefix(i.Path, at+"."), "."); rawGiven[name] != nil {
			i.Path = path + ".rawParameters" + strings.TrimPrefix(i.Path, at)
		}
		found = append(found, i)
	}
	return found
}

// expressionPaths are the paths of texts that hold expressions.
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
