package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflowtest"
)

// testReport is what `lockstep test -o json` prints.
type testReport struct {
	Passed int                   `json:"passed"`
	Failed int                   `json:"failed"`
	Tests  []workflowtest.Result `json:"tests"`
}

func newTest(c *connection) *cobra.Command {
	var run string
	var printSchema bool
	cmd := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Play definitions without a service, and compare what comes of them",
		Long: `Play definitions without a service, as test files (FILE.test.yaml) say: with the answers of blocks, people and
signals that they script, under a clock that does not wait. It is the real engine that plays. docs/testing.md has
the format of test files, and --schema prints its JSON Schema.

If something is not as a test expects, the exit code is 1; if a file is not valid, it is 2.`,
		Example: "  lockstep test examples/definitions/*.test.yaml\n  lockstep test upgrade.test.yaml --run \"one device fails\"",
		RunE: func(cmd *cobra.Command, files []string) error {
			if printSchema {
				schema, err := workflowtest.Schema()
				if err != nil {
					return err
				}
				_, err = render.Raw(cmd.OutOrStdout()).Write(schema)
				return err
			}
			if len(files) == 0 {
				return errors.New("FILE is missing: lockstep test FILE...")
			}
			report := testReport{Tests: []workflowtest.Result{}}
			for _, file := range files {
				results, err := workflowtest.Run(cmd.Context(), file, func(name string) bool { return strings.Contains(name, run) })
				var wrong *workflowtest.FileError
				if errors.Is(err, fs.ErrNotExist) && errors.As(err, &wrong) && wrong.Path == file {
					return render.ReadError(file, err)
				}
				if errors.As(err, &wrong) {
					return &render.FileError{Path: wrong.Path, Err: wrong.Err}
				}
				if err != nil {
					return err
				}
				for _, r := range results {
					if r.Passed {
						report.Passed++
					} else {
						report.Failed++
					}
					if !c.json() {
						printTestResult(cmd.OutOrStdout(), r)
					}
				}
				report.Tests = append(report.Tests, results...)
			}
			if len(report.Tests) == 0 {
				return fmt.Errorf("no test has a name that contains %q", run)
			}
			if c.json() {
				if err := render.PrintJSON(cmd, report); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "%d passed, %d failed\n", report.Passed, report.Failed)
			}
			if report.Failed > 0 {
				return render.ErrSilent
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "only the tests whose name contains this text")
	cmd.Flags().BoolVar(&printSchema, "schema", false, "print the JSON Schema of test files, for editors")
	return cmd
}

// printTestResult prints one test, with what was executed if it failed.
func printTestResult(out io.Writer, r workflowtest.Result) {
	if r.Passed {
		fmt.Fprintf(out, "ok    %s: %s (%d jobs in %s)\n", r.File, r.Name, len(r.Jobs)+len(r.Rollbacks), r.Took.Std().Round(time.Second))
		return
	}
	fmt.Fprintf(out, "FAIL  %s: %s\n", r.File, r.Name)
	printIssues(out, r.File+":", r.Failures)
	if r.Execution == "" {
		return
	}
	fmt.Fprintf(out, "  it is %s %s after %s\n", r.State, r.Outcome, r.Took.Std().Round(time.Second))
	for _, list := range []struct {
		name  string
		items []string
	}{{"steps", r.Steps}, {"jobs", r.Jobs}, {"rollbacks", r.Rollbacks}} {
		if len(list.items) > 0 {
			fmt.Fprintf(out, "  %s: %s\n", list.name, strings.Join(list.items, ", "))
		}
	}
	for _, f := range r.FollowUps {
		fmt.Fprintf(out, "  its end has started: %s\n", render.OneLine(workflow.Truncate(f.String(), maxShownParameters)))
	}
}

// withoutTests removes test files from the files that a verb takes for definitions. They lie in the
// same directory, and *.yaml matches both.
func withoutTests(cmd *cobra.Command, files []string) (definitions []string, err error) {
	var tests, settings []string
	for _, file := range files {
		if isSettings(file) {
			settings = append(settings, file)
		} else if stem := strings.TrimSuffix(file, filepath.Ext(file)); filepath.Ext(stem) == ".test" {
			tests = append(tests, file)
		} else {
			definitions = append(definitions, file)
		}
	}
	if len(settings) > 0 {
		printNote(cmd, "left out: %s (settings of \"lockstep dev --config\")", strings.Join(settings, ", "))
	}
	switch {
	case len(settings) > 0 && len(tests)+len(definitions) == 0:
		return nil, errors.New("there is no definition among the files")
	case len(tests) > 0 && len(definitions) == 0:
		return nil, fmt.Errorf("%s is a test file, not a definition: lockstep test %s", tests[0], strings.Join(tests, " "))
	case len(tests) > 0:
		printNote(cmd, "left out: %s (\"lockstep test\" plays test files)", strings.Join(tests, ", "))
	}
	return definitions, nil
}

// settingsFile is the name of the settings that "lockstep init" writes beside the definitions.
const settingsFile = "lockstep.yaml"

// isSettings reports whether a file has settings of the local stack and no definition, as that of "lockstep init".
func isSettings(file string) bool {
	if filepath.Base(file) != settingsFile {
		return false
	}
	source, err := os.ReadFile(file)
	return err == nil && !packageLine.Match(source)
}

var packageLine = regexp.MustCompile(`(?m)^"?package"?\s*:`)
