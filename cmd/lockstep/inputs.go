package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newInputs(c *connection) *cobra.Command {
	var mine bool
	var limit int
	cmd := &cobra.Command{
		Use:     "inputs [ID]",
		Short:   "List what executions ask people, or what one of them does",
		Example: "  lockstep inputs --mine\n  lockstep inputs ID --output json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient(noteSkipped(cmd))
			if err != nil {
				return err
			}
			id := ""
			if len(args) > 0 {
				id = args[0]
			}
			none := "nobody is asked for input"
			if mine {
				none = "nothing waits for you: without --mine you see what waits for others"
			}
			return printListOrNote(cmd, c, api.Inputs(cmd.Context(), id, mine), limit,
				[]string{"EXECUTION", "WORKFLOW", "STEP", "VISIT", "TITLE", "ANSWERS", "SINCE", "UNTIL"},
				func(i views.InputView) []string {
					return []string{
						i.Execution, i.Workflow.String(), i.Step, fmt.Sprint(i.Visit), render.OrDash(i.Title), fmt.Sprintf("%d/%d", len(i.Answers), i.Need),
						render.Ago(i.Since), render.Time(&i.Until),
					}
				}, none)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&mine, "mine", false, "only what you may answer and have not answered")
	f.IntVar(&limit, "limit", 100, "maximum number; 0 for all")
	return cmd
}

func newAnswer(c *connection) *cobra.Command {
	var req views.AnswerRequest
	var data, file string
	var sets []string
	var ask, next bool
	var token string
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "answer [ID]",
		Short: "Answer a step that waits for people",
		Long: `Answer a step that waits for people, with JSON, or with an object made of its fields. --ask shows the question
and asks for each field of its schema. With --token no execution is named and no other credentials are needed: the
token says which step it is. Other users of this machine can see what is on a command line: --token @FILE reads it
from a file, and --token - from standard input.`,
		Example: "  lockstep answer ID --set approved=true --set note=fine\n  lockstep answer ID --step approve --data '{\"approved\":true}'\n  lockstep answer ID --ask\n  lockstep answer --token @token.txt --set approved=true",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (token == "") {
				return errors.New("name the execution, or give a token with --token, and not both")
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if token != "" {
				if req.Step != "" || req.Visit != 0 || req.Reason != "" || next || wait.asked() {
					return errors.New("--step, --visit, --reason, --next and --wait do not go with --token, which says which step it is and shows no execution")
				}
				return answerByToken(cmd, c, api, token, req.IdempotencyKey, func() (json.RawMessage, error) { return readAnswer(cmd, data, file, sets, ask) })
			}
			if req.IdempotencyKey == "" {
				req.IdempotencyKey = uuid.NewString() // the client repeats a request whose response is lost
			}
			if req.Input, err = readAnswer(cmd, data, file, sets, ask); err != nil {
				return err
			}
			if ask {
				if err := askForInput(cmd, api, args[0], &req); err != nil {
					return err
				}
			}
			if next {
				x, err := api.NextStep(cmd.Context(), args[0], views.NextRequest{Reason: req.Reason, Input: req.Input, Step: req.Step, Visit: req.Visit, IdempotencyKey: req.IdempotencyKey})
				return wait.finish(cmd, c, api, x, err)
			}
			x, err := api.Answer(cmd.Context(), args[0], req)
			if err == nil && !wait.asked() {
				noteAnswers(cmd, api, x)
			}
			return wait.finish(cmd, c, api, x, err)
		},
	}
	wait.add(cmd)
	f := cmd.Flags()
	f.StringVar(&req.Step, "step", "", "label of the step; needed where several wait")
	f.IntVar(&req.Visit, "visit", 0, "which run of the step, as \"lockstep inputs\" shows it; an answer to an earlier one is refused")
	f.StringVar(&data, "data", "", "the answer, as JSON")
	f.StringVarP(&file, "file", "f", "", "a file with the answer as JSON, - for standard input")
	f.StringArrayVar(&sets, "set", nil, "one field of the answer as NAME=VALUE, as for run (repeatable)")
	f.BoolVar(&ask, "ask", false, "ask for each field")
	f.BoolVar(&next, "next", false, "of an execution that goes step by step: enter the step that follows, too")
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&token, "token", "", "answer as the bearer of this token; @FILE or - reads it")
	f.StringVar(&req.IdempotencyKey, "idempotency-key", "", "answer at most once with this key")
	return cmd
}

// noteAnswers says of each step that needs several answers how many it has. If it cannot read them,
// it stays silent.
func noteAnswers(cmd *cobra.Command, api *client.Client, x views.ExecutionView) {
	if !asksInput(x) {
		return
	}
	for i, err := range api.Inputs(cmd.Context(), x.ID, false) {
		if err != nil {
			return
		}
		if i.Need > 1 {
			printNote(cmd, "step %s has %d of %d answers", i.Step, len(i.Answers), i.Need)
		}
	}
}

// answerByToken answers the step that a token names. Without an answer on the command line, it asks
// the caller.
func answerByToken(cmd *cobra.Command, c *connection, api *client.Client, token, key string, read func() (json.RawMessage, error)) error {
	if path, isFile := strings.CutPrefix(token, "@"); isFile || token == "-" {
		raw, err := readSource(cmd, path)
		if err != nil {
			return err
		}
		token = strings.TrimSpace(string(raw))
	}
	input, err := read()
	if err != nil {
		return err
	}
	if input == nil {
		q, err := api.QuestionOfToken(cmd.Context(), token)
		if err != nil {
			return render.AsServiceError(err)
		}
		f := newForm(cmd)
		f.show(q.Title, q.Show)
		if input, err = f.fill(q.Schema); err != nil {
			return err
		}
	}
	// Without a key, repeating the command with the same input repeats the same answer.
	receipt, err := api.AnswerByToken(cmd.Context(), token, views.TokenAnswer{Input: input, IdempotencyKey: key})
	return printText(cmd, c, receipt, err, fmt.Sprintf("step %s of execution %s has the answer", receipt.Step, receipt.Execution))
}

func newToken(c *connection) *cobra.Command {
	var req views.TokenRequest
	var expires time.Duration
	var revoke bool
	cmd := &cobra.Command{
		Use:   "token ID",
		Short: "Make a token with which somebody answers a step that waits",
		Long: `Make a token with which somebody answers a step that waits for people, with your right to answer and without other
credentials. It is printed once and stored nowhere: whoever has it may answer. --revoke makes all tokens of the step
invalid.`,
		Example: "  lockstep token ID --for ann@example.com --expires 24h\n  lockstep token ID --step approve --revoke",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if revoke == (req.For != "") {
				return errors.New("say for whom it is with --for, or revoke all with --revoke")
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if revoke {
				x, err := api.RevokeTokens(cmd.Context(), args[0], views.RevokeRequest{Step: req.Step, Visit: req.Visit, Reason: req.Reason})
				return printExecution(cmd, c, x, err)
			}
			if expires > 0 {
				at := time.Now().Add(expires).UTC()
				req.ExpiresAt = &at
			}
			made, err := api.CreateToken(cmd.Context(), args[0], req)
			if err == nil && made.URL != nil {
				printNote(cmd, "in a browser: %s", *made.URL)
			}
			return printText(cmd, c, made, err, made.Token)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.For, "for", "", "name by which its bearer answers")
	f.StringVar(&req.Step, "step", "", "label of the step; needed where several wait")
	f.IntVar(&req.Visit, "visit", 0, "which run of the step, as \"lockstep inputs\" shows it")
	f.DurationVar(&expires, "expires", 0, "how long it is valid; as long as the step waits by default")
	f.BoolVar(&revoke, "revoke", false, "revoke all tokens of the step")
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	return cmd
}

func newTokens(c *connection) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "tokens ID",
		Short: "List the tokens that were made for steps of an execution, and what has become of each",
		Long: `List the tokens that were made for steps of an execution ("lockstep token"), and what has become of each: active, used,
expired or revoked. Nothing stores the tokens themselves.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printListOrNote(cmd, c, api.Tokens(cmd.Context(), args[0]), limit, []string{"STEP", "VISIT", "BY", "FOR", "AT", "EXPIRES", "STATE"},
				func(t views.TokenStateView) []string {
					return []string{t.Step, fmt.Sprint(t.Visit), t.By, t.For, render.Ago(t.At), render.Time(t.ExpiresAt), string(t.State)}
				}, "no tokens were made")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number; 0 for all")
	return cmd
}

func newSignal(c *connection) *cobra.Command {
	var req views.SignalRequest
	var data, file string
	var sets []string
	var workflowName, key string
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "signal ID [NAME]",
		Short: "Send a signal to an execution",
		Long: `Send a signal to an execution. A step that waits for a signal of this name takes it; one that comes before the step
is kept. With --id it may be sent again: it is the same signal, whatever has become of it.

With --workflow and --key there is no ID, only the NAME: it goes to the execution of the workflow that has the key.`,
		Example: "  lockstep signal ID paid --set amount=12\n  lockstep signal ID paid --data '{\"amount\":12}' --id invoice-7\n  lockstep signal --workflow shop/order --key order-7 paid",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if req.IdempotencyKey == "" {
				req.IdempotencyKey = uuid.NewString() // the client repeats a request whose response is lost
			}
			if data != "" || file != "" || len(sets) > 0 {
				if req.Data, err = readAnswer(cmd, data, file, sets, false); err != nil {
					return err
				}
			}
			byKey := workflowName != "" && key != ""
			switch {
			case len(args) == 2 && workflowName == "" && key == "":
				x, err := api.Signal(cmd.Context(), args[0], args[1], req)
				wait.stale = staleSince(x)
				noteOtherSignal(cmd, x, args[1], err)
				return wait.finish(cmd, c, api, x, err)
			case len(args) == 1 && byKey && strings.Count(workflowName, "/") == 1 && !strings.Contains(workflowName, ":"):
				x, err := api.SignalKey(cmd.Context(), workflowName, key, args[0], req)
				wait.stale = staleSince(x)
				noteOtherSignal(cmd, x, args[0], err)
				return wait.finish(cmd, c, api, x, err)
			}
			return errors.New("say to which execution: signal ID NAME, or signal --workflow PACKAGE/NAME --key KEY NAME")
		},
	}
	wait.add(cmd)
	f := cmd.Flags()
	f.StringVar(&data, "data", "", "its data, as JSON")
	f.StringVarP(&file, "file", "f", "", "a file with its data as JSON, - for standard input")
	f.StringArrayVar(&sets, "set", nil, "one field of its data as NAME=VALUE, as for run (repeatable)")
	f.StringVar(&workflowName, "workflow", "", "with --key: PACKAGE/NAME of the workflow")
	f.StringVar(&key, "key", "", "send it to the execution that has this business key")
	f.StringVar(&req.IdempotencyKey, "id", "", "id of the signal: the same id again is the same signal")
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	return cmd
}

// noteOtherSignal tells who has sent a signal that the execution waits for another one: the name may be misspelt.
func noteOtherSignal(cmd *cobra.Command, x views.ExecutionView, name string, err error) {
	w := x.Waiting
	if err != nil || w == nil || w.Kind != workflow.WaitSignal || w.Signal == name {
		return
	}
	for _, other := range w.All {
		if other.Kind == workflow.WaitSignal && (w.Step == nil || other.Step != *w.Step) {
			return // the view does not say which signal that is
		}
	}
	printNote(cmd, "it waits for the signal %q; %q is kept until a step waits for it", w.Signal, name)
}

// readAnswer reads the answer from exactly one of the flags. It returns nil if the caller is to be
// asked.
func readAnswer(cmd *cobra.Command, data, file string, sets []string, ask bool) (json.RawMessage, error) {
	given := 0
	for _, is := range []bool{data != "", file != "", len(sets) > 0, ask} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("say it with one of --data, --file and --set, or answer with --ask")
	}
	switch {
	case data != "":
		if !json.Valid([]byte(data)) {
			return nil, fmt.Errorf("--data wants JSON such as '{\"approved\":true}', and %q is not JSON", data)
		}
		return json.RawMessage(data), nil
	case file != "":
		raw, err := readSource(cmd, file)
		if err == nil && !json.Valid(raw) {
			err = &render.FileError{Path: file, Err: errors.New("it is not JSON")}
		}
		return raw, err
	case len(sets) > 0:
		return parseParameters("", sets)
	}
	return nil, nil
}

// askForInput shows the question of the step and asks for each field of its schema. The answer
// belongs to that run of the step.
func askForInput(cmd *cobra.Command, api *client.Client, id string, req *views.AnswerRequest) error {
	var found []views.InputView
	for input, err := range api.Inputs(cmd.Context(), id, false) {
		if err != nil {
			return render.AsServiceError(err)
		}
		if req.Step == "" || input.Step == req.Step {
			found = append(found, input)
		}
	}
	switch {
	case len(found) == 0 && req.Step != "":
		return fmt.Errorf("step %q of execution %s asks nobody for input; \"lockstep inputs %s\" lists what it asks", req.Step, id, id)
	case len(found) == 0:
		return fmt.Errorf("execution %s asks nobody for input", id)
	case len(found) > 1:
		return fmt.Errorf("%d steps of execution %s wait for input: name one with --step", len(found), id)
	}
	input := found[0]
	req.Step, req.Visit = input.Step, input.Visit
	var err error
	f := newForm(cmd)
	f.show(input.Title, input.Show)
	req.Input, err = f.fill(input.Schema)
	return err
}

// show shows the question.
func (f *form) show(title *string, show json.RawMessage) {
	fmt.Fprintf(f.out, "%s\n", render.OneLine(render.OrDash(title)))
	if len(show) > 0 && string(show) != "null" {
		fmt.Fprintf(f.out, "%s\n", render.OneLine(string(show)))
	}
}

// fieldSchema is the part of a JSON Schema that a form understands.
type fieldSchema struct {
	Type        any                        `json:"type"`
	Title       string                     `json:"title"`
	Description string                     `json:"description"`
	Enum        []json.RawMessage          `json:"enum"`
	Default     json.RawMessage            `json:"default"`
	Required    []string                   `json:"required"`
	Properties  map[string]json.RawMessage `json:"properties"`
	Defs        json.RawMessage            `json:"$defs"`
	Sealed      bool                       `json:"x-sealed"` // nobody sees it, and no message quotes it
}

// fill asks for the fields of an object, or for the whole value as JSON if the schema does not list
// fields.
func (f *form) fill(raw json.RawMessage) (json.RawMessage, error) {
	var s fieldSchema
	_ = json.Unmarshal(raw, &s) // a schema that is not an object says nothing
	if len(s.Properties) == 0 {
		return f.ask("answer", raw, true)
	}
	return f.fillRest(raw, map[string]json.RawMessage{})
}

// fillRest asks for the fields of an object that have no value yet, and returns the object.
func (f *form) fillRest(raw json.RawMessage, values map[string]json.RawMessage) (json.RawMessage, error) {
	var s fieldSchema
	_ = json.Unmarshal(raw, &s)
	for _, name := range s.order() {
		if _, given := values[name]; given {
			continue
		}
		value, err := f.ask(name, s.withDefinitions(s.Properties[name]), slices.Contains(s.Required, name))
		if err != nil {
			return nil, err
		}
		if value != nil {
			values[name] = value
		}
	}
	return workflow.EncodeJSON(values)
}

// order returns the names of the fields in the order in which they are asked for: the required ones
// as their schema lists them, then the others by name, as JSON keeps no order of them.
func (s *fieldSchema) order() []string {
	var names []string
	for _, name := range s.Required {
		if _, declared := s.Properties[name]; declared && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// withDefinitions returns the schema of a field with the definitions to which it may refer.
func (s *fieldSchema) withDefinitions(field json.RawMessage) json.RawMessage {
	var words map[string]json.RawMessage
	if len(s.Defs) == 0 || json.Unmarshal(field, &words) != nil || words == nil {
		return field
	}
	words["$defs"] = s.Defs
	whole, err := workflow.EncodeJSON(words)
	if err != nil {
		return field
	}
	return whole
}

// ask asks for one value until it matches its schema. An empty line means the default, or no value
// if the field is not required.
func (f *form) ask(name string, raw json.RawMessage, required bool) (json.RawMessage, error) {
	var s fieldSchema
	_ = json.Unmarshal(raw, &s)
	hint := ""
	for _, text := range []string{s.Title, s.Description} {
		if text != "" {
			hint += " - " + text
		}
	}
	switch {
	case len(s.Enum) > 0:
		var choices []string
		for _, v := range s.Enum {
			choices = append(choices, strings.Trim(string(v), `"`))
		}
		hint += " (" + strings.Join(choices, ", ") + ")"
	case s.Type == "boolean":
		hint += " (yes or no)"
	case s.Type == "string" || s.Type == nil:
	default:
		hint += fmt.Sprintf(" (%v)", s.Type)
	}
	if s.Sealed && f.terminal != nil {
		hint += " (it is not shown)"
	}
	if len(s.Default) > 0 {
		hint += fmt.Sprintf(" [%s]", s.Default)
	}
	for {
		fmt.Fprintf(f.out, "%s: ", render.OneLine(name+hint))
		text, err := f.readLine(s.Sealed)
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		switch {
		case text != "":
			if value, err = fieldValue(s, text); err != nil {
				return nil, err
			}
		case len(s.Default) > 0:
			value = s.Default
		case !required:
			return nil, nil
		}
		problem := "it is required"
		if value != nil {
			if problem = ""; !schema.Absent(raw) {
				if issues := schema.Validate(raw, value, name); len(issues) > 0 {
					if problem = issues[0].Message; s.Sealed {
						problem = "it does not fit the schema of the parameter: " + issues[0].Code
					}
				}
			}
		}
		if problem == "" {
			return value, nil
		}
		fmt.Fprintf(f.out, "  %s\n", render.OneLine(problem))
	}
}

// fieldValue converts typed text to a value: JSON, unless the field is a string.
func fieldValue(s fieldSchema, text string) (json.RawMessage, error) {
	if s.Type == "boolean" {
		switch strings.ToLower(text) {
		case "y", "yes":
			return json.RawMessage("true"), nil
		case "n", "no":
			return json.RawMessage("false"), nil
		}
	}
	enum := slices.ContainsFunc(s.Enum, func(v json.RawMessage) bool { return string(v) == text })
	if s.Type != "string" && json.Valid([]byte(text)) && (len(s.Enum) == 0 || enum) {
		return json.RawMessage(text), nil
	}
	return workflow.EncodeJSON(text)
}
