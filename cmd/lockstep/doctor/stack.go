package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/cloud"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Cloud is what is asked of AWS.
type Cloud interface {
	Stack(ctx context.Context, name string) (cloud.Stack, error)
	Table(ctx context.Context, name string) (cloud.Table, error)
	Queue(ctx context.Context, url string) (cloud.Queue, error)
	Function(ctx context.Context, name string) (cloud.Function, error)
	Loops(ctx context.Context, function string) (bool, error)
	Reserved(ctx context.Context, function string) (n int, reserved bool, err error)
	Mapping(ctx context.Context, id string) (cloud.Mapping, error)
	Mappings(ctx context.Context, queue string) ([]cloud.Mapping, error)
	Rule(ctx context.Context, name string) (cloud.Rule, error)
	Alarms(ctx context.Context, names []string) ([]cloud.Alarm, error)
	Invocations(ctx context.Context, function string, from, to time.Time) (int, error)
}

// stack is a deployed stack that is looked at. Which of its parts are the engine's
// is what its functions' environment says: that is what they work with.
type stack struct {
	Cloud
	report *Report
	now    func() time.Time

	cloud.Stack
	functions []cloud.Function       // of the engine, by their ARN unique
	others    []cloud.Function       // of somebody else, that work on the engine's queues
	queues    map[string]cloud.Queue // of the stack, by ARN
	served    map[string][]served    // who works on a queue, by the queue's ARN
	tables    map[string]string      // names of the engine's, by role
	sources   []string               // URLs of the engine's queues that are worked on
}

// examine looks at a stack and returns the address that it says its service has.
func (s *stack) examine(ctx context.Context, name string) string {
	if !s.whole(ctx, name) || !s.findFunctions(ctx) {
		return s.Address()
	}
	s.findQueues(ctx)
	s.findMappings(ctx)
	s.checkFunctions(ctx)
	s.checkTables(ctx)
	s.checkMappings()
	s.checkDeadLetters()
	s.checkSchedule(ctx)
	s.checkAlarms(ctx)
	return s.Address()
}

// whole reports whether there is a stack to look at.
func (s *stack) whole(ctx context.Context, name string) bool {
	found, err := s.Cloud.Stack(ctx, name)
	s.Stack = found
	switch {
	case errors.Is(err, cloud.ErrNoStack):
		s.report.fail("stack", "See that the name, the account and the region (AWS_REGION) are right.", "there is no stack %s", name)
		return false
	case err != nil:
		s.report.fail("stack", "Use credentials that may read, such as those with AWS's policy ReadOnlyAccess, in the stack's account and region.", "%s cannot be looked at: %v", name, err)
		return false
	}
	const next = "\"aws cloudformation describe-stack-events --stack-name NAME\" says what went wrong; repair it and deploy again."
	reason := ""
	if found.Reason != "" {
		reason = ": " + found.Reason
	}
	switch status := found.Status; {
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		s.report.warn("stack", "Look again when it is over.", "%s is being changed: %s", name, status)
	case status == "UPDATE_ROLLBACK_COMPLETE":
		s.report.warn("stack", next, "the last update of %s failed and was taken back%s", name, reason)
	case strings.HasSuffix(status, "_FAILED"), strings.HasPrefix(status, "ROLLBACK"), strings.HasPrefix(status, "DELETE"):
		s.report.fail("stack", next, "%s is %s%s", name, status, reason)
	default:
		s.report.good("stack", "%s is %s, %s", name, status, many(len(found.Parts), "part"))
	}
	return true
}

// findFunctions reads the functions and learns from them which tables and queues
// the engine uses.
func (s *stack) findFunctions(ctx context.Context) bool {
	s.tables = map[string]string{}
	urls := map[string]bool{}
	for _, name := range s.Of(cloud.KindFunction) {
		f, err := s.Function(ctx, name)
		if cloud.Gone(err) {
			s.report.fail("functions", "Deploy the stack again under another name, or put the function back: CloudFormation does not see that it is gone.", "%s of the stack is not there", name)
			continue
		}
		if err != nil {
			s.unasked("functions", err, "tables", "queues", "mappings", "dead-letter queues", "schedule", "alarms")
			return false
		}
		if f.Environment[topology.EnvTableJobs] == "" && f.Environment[topology.EnvQueueLifecycle] == "" {
			continue // of somebody else, in the same stack
		}
		s.functions = append(s.functions, f)
		for role, variable := range topology.TableEnv {
			if table := f.Environment[variable]; table != "" {
				s.tables[role] = table
			}
		}
		pools := map[string]string{}
		if text := f.Environment[topology.EnvQueueJobsURLs]; text != "" {
			_ = json.Unmarshal([]byte(text), &pools) // a function with another text would not have started
		}
		pools["/"] = f.Environment[topology.EnvQueueLifecycle] // no pool is called so
		for _, url := range pools {
			if url != "" && !urls[url] {
				urls[url] = true
				s.sources = append(s.sources, url)
			}
		}
	}
	if len(s.functions) == 0 {
		s.report.fail("functions", "Name the stack that the engine is part of.", "no function of %s is an engine's", s.Name)
		return false
	}
	return true
}

// unasked is a check that AWS did not answer, with those that need its answer. That
// the caller may not ask may be meant; that nobody answers is not.
func (s *stack) unasked(check string, err error, with ...string) {
	s.report.skip(append(with, check)...)
	if cloud.Denied(err) {
		s.report.warn(check, "Use credentials that may read, such as those with AWS's policy ReadOnlyAccess.", "not checked: %v", err)
		return
	}
	s.report.fail(check, "See that the credentials have not expired, and try again; an emulator of AWS may not know the question.", "not checked: %v", err)
}

// short is the last part of an ARN or a URL.
func short(arn string) string { return arn[strings.LastIndexAny(arn, ":/")+1:] }
