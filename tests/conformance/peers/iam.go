package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where the stacks are.
const (
	region  = "eu-west-1"
	account = "123456789012"
)

// The decisions of IAM.
const (
	allowed  = "Allowed"
	unstated = "ImplicitlyDenied" // nothing allows it
	denied   = "ExplicitlyDenied"
)

// simulation is the input of the evaluator.
type simulation struct {
	Request                 request           `json:"request"`
	IdentityPolicies        []named           `json:"identityPolicies"`
	ServiceControlPolicies  []json.RawMessage `json:"serviceControlPolicies"`
	ResourceControlPolicies []json.RawMessage `json:"resourceControlPolicies"`
	ResourcePolicy          any               `json:"resourcePolicy,omitempty"`
}

type named struct {
	Name   string `json:"name"`
	Policy any    `json:"policy"`
}

type request struct {
	Principal        string            `json:"principal"`
	Action           string            `json:"action"`
	Resource         resourceOf        `json:"resource"`
	ContextVariables map[string]string `json:"contextVariables"`
}

type resourceOf struct {
	Resource  string `json:"resource"`
	AccountID string `json:"accountId"`
}

// expectation is a simulation with the decision that it has to have.
type expectation struct {
	of         string // where the policies are from
	simulation simulation
	want       string
}

// expect adds a request of a caller with these policies. Nothing is sent without TLS, unless the context
// says so.
func (c *checks) expect(of, want string, policies []any, action, resource string, context map[string]string) {
	all := map[string]string{"aws:SecureTransport": "true"}
	for key, value := range context {
		all[key] = value
	}
	s := simulation{
		Request:                request{"arn:aws:iam::" + account + ":role/caller", action, resourceOf{resource, account}, all},
		ServiceControlPolicies: []json.RawMessage{}, ResourceControlPolicies: []json.RawMessage{}, ResourcePolicy: c.ofResources[resource],
	}
	for i, p := range policies {
		s.IdentityPolicies = append(s.IdentityPolicies, named{fmt.Sprintf("policy%d", i), p})
	}
	c.all = append(c.all, expectation{of, s, want})
}

type checks struct {
	ofResources map[string]any // policies of tables and queues, by their ARN
	all         []expectation
}

// failures asks the evaluator, and returns the expectations that it does not confirm.
func (c *checks) failures() ([]string, error) {
	simulations := make([]simulation, len(c.all))
	for i, e := range c.all {
		simulations[i] = e.simulation
	}
	input, err := json.Marshal(simulations)
	if err != nil {
		return nil, err
	}
	evaluator := exec.Command("node", filepath.Join("tests", "conformance", "peers", "iam.mjs"))
	evaluator.Stdin, evaluator.Stderr = bytes.NewReader(input), os.Stderr
	output, err := evaluator.Output()
	if err != nil {
		return nil, fmt.Errorf("iam.mjs: %w", err)
	}
	var decisions []string
	if err := json.Unmarshal(output, &decisions); err != nil {
		return nil, err
	}
	if len(decisions) != len(c.all) || len(decisions) == 0 {
		return nil, fmt.Errorf("%d decisions on %d requests", len(decisions), len(c.all))
	}
	var failures []string
	for i, e := range c.all {
		if decisions[i] != e.want {
			r := e.simulation.Request
			failures = append(failures, fmt.Sprintf("%s: %s on %s with %v: %s, want %s", e.of, r.Action, r.Resource.Resource, r.ContextVariables, decisions[i], e.want))
		}
	}
	return failures, nil
}

// compareRoles compares what the roles in synthesised templates allow, by an evaluator of IAM's policies
// that is not ours (iam.mjs), with what they are meant to: on tables with topology.Rights, which the local
// stack enforces, and what docs/deploying.md says of its policies.
func compareRoles(files []string) error {
	c, roles, exports := &checks{ofResources: map[string]any{}}, 0, map[string]any{}
	templates := make([]*template, len(files))
	for i, file := range files {
		t, err := readTemplate(file)
		if err != nil {
			return err
		}
		for _, output := range t.Outputs {
			exports[output.Export.Name] = t.value(output.Value)
		}
		templates[i], t.exports = t, exports
	}
	for _, t := range templates {
		n, err := t.addChecks(c)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		roles += n
	}
	page, err := os.ReadFile(filepath.Join("docs", "deploying.md"))
	if err != nil {
		return err
	}
	if err := c.addPage(string(page)); err != nil {
		return fmt.Errorf("docs/deploying.md: %w", err)
	}
	failures, err := c.failures()
	if err != nil {
		return err
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d of %d decisions differ:\n%s", len(failures), len(c.all), strings.Join(failures, "\n"))
	}
	fmt.Printf("roles: %d decisions on %d roles and the policies of docs/deploying.md, by another evaluator\n", len(c.all), roles)
	return nil
}
