package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// AWS is what is asked of AWS.
type AWS interface {
	Stack(ctx context.Context, name string) (aws.Stack, error)
	Table(ctx context.Context, name string) (aws.Table, error)
	Queue(ctx context.Context, url string) (aws.Queue, error)
	Function(ctx context.Context, name string) (aws.Function, error)
	AllowsRecursion(ctx context.Context, function string) (bool, error)
	ReservedConcurrency(ctx context.Context, function string) (n int, reserved bool, err error)
	Mapping(ctx context.Context, id string) (aws.Mapping, error)
	Mappings(ctx context.Context, queue string) ([]aws.Mapping, error)
	Rule(ctx context.Context, name string) (aws.Rule, error)
	Alarms(ctx context.Context, names []string) ([]aws.Alarm, error)
	Invocations(ctx context.Context, function string, from, to time.Time) (int, error)
}

// stackCheck is a deployed stack that is looked at. Which of its parts are the engine's
// is what its functions' environment says: that is what they work with.
type stackCheck struct {
	AWS
	report *Report
	now    func() time.Time

	aws.Stack
	functions         []aws.Function        // of the engine, by their ARN unique
	externalFunctions []aws.Function        // of somebody else, that work on the engine's queues
	queues            map[string]aws.Queue  // of the stack, by ARN
	consumers         map[string][]consumer // who works on a queue, by the queue's ARN
	tables            map[string]string     // names of the engine's, by role
	queueURLs         []string              // URLs of the engine's queues that are worked on
}

// checkAll looks at a stack and returns the address that it says its service has.
func (s *stackCheck) checkAll(ctx context.Context, name string) string {
	if !s.loadStack(ctx, name) || !s.loadFunctions(ctx) {
		return s.APIURL()
	}
	s.loadQueues(ctx)
	s.loadMappings(ctx)
	s.checkFunctions(ctx)
	s.checkTables(ctx)
	s.checkMappings()
	s.checkDeadLetters()
	s.checkSchedule(ctx)
	s.checkAlarms(ctx)
	return s.APIURL()
}

// loadStack reports whether there is a stack to look at.
func (s *stackCheck) loadStack(ctx context.Context, name string) bool {
	found, err := s.AWS.Stack(ctx, name)
	s.Stack = found
	switch {
	case errors.Is(err, aws.ErrStackNotFound):
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
		s.report.pass("stack", "%s is %s, %s", name, status, pluralize(len(found.Resources), "part"))
	}
	return true
}

// loadFunctions reads the functions and learns from them which tables and queues
// the engine uses.
func (s *stackCheck) loadFunctions(ctx context.Context) bool {
	s.tables = map[string]string{}
	urls := map[string]bool{}
	for _, name := range s.PhysicalIDs(aws.TypeFunction) {
		f, err := s.Function(ctx, name)
		if aws.IsNotFound(err) {
			s.report.fail("functions", "Deploy the stack again under another name, or put the function back: CloudFormation does not see that it is gone.", "%s of the stack is not there", name)
			continue
		}
		if err != nil {
			s.reportUnchecked("functions", err, "tables", "queues", "mappings", "dead-letter queues", "schedule", "alarms")
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
				s.queueURLs = append(s.queueURLs, url)
			}
		}
	}
	if len(s.functions) == 0 {
		s.report.fail("functions", "Name the stack that the engine is part of.", "no function of %s is an engine's", s.Name)
		return false
	}
	return true
}

// reportUnchecked is a check that AWS did not answer, with those that need its answer. That
// the caller may not ask may be meant; that nobody answers is not.
func (s *stackCheck) reportUnchecked(check string, err error, with ...string) {
	s.report.skip(append(with, check)...)
	if aws.IsAccessDenied(err) {
		s.report.warn(check, "Use credentials that may read, such as those with AWS's policy ReadOnlyAccess.", "not checked: %v", err)
		return
	}
	s.report.fail(check, "See that the credentials have not expired, and try again; an emulator of AWS may not know the question.", "not checked: %v", err)
}

// lastSegment is the last part of an ARN or a URL.
func lastSegment(arn string) string { return arn[strings.LastIndexAny(arn, ":/")+1:] }
