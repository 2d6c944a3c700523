package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// AWS reads the resources of a stack.
type AWS interface {
	Stack(ctx context.Context, name string) (aws.Stack, error)
	Table(ctx context.Context, name string) (aws.Table, error)
	Queue(ctx context.Context, url string) (aws.Queue, error)
	Function(ctx context.Context, name string) (aws.Function, error)
	AllowsRecursion(ctx context.Context, function string) (bool, error)
	ReservedConcurrency(ctx context.Context, function string) (n int, reserved bool, err error)
	Concurrency(ctx context.Context) (int, error)
	Mapping(ctx context.Context, id string) (aws.Mapping, error)
	Mappings(ctx context.Context, queue string) ([]aws.Mapping, error)
	Rule(ctx context.Context, name string) (aws.Rule, error)
	Alarms(ctx context.Context, names []string) ([]aws.Alarm, error)
	Invocations(ctx context.Context, function string, from, to time.Time) (int, error)
}

// stackCheck checks a deployed stack. The environment variables of the functions name the engine's
// tables and queues.
type stackCheck struct {
	AWS
	report *Report
	now    func() time.Time

	aws.Stack
	functions         []aws.Function        // of the engine
	externalFunctions []aws.Function        // in other stacks, which consume the engine's queues
	queues            map[string]aws.Queue  // of the stack and the engine, by ARN
	consumers         map[string][]consumer // by the ARN of their queue
	tables            map[string]string     // names of the engine's tables, by role
	queueURLs         []string              // of the engine's queues that have consumers, not their dead-letter queues
}

// checkAll does all checks of a stack and returns the address of its service, "" if the
// stack has no output with it.
func (s *stackCheck) checkAll(ctx context.Context, name string) string {
	if !s.loadStack(ctx, name) || !s.loadFunctions(ctx) {
		return s.APIURL()
	}
	s.loadQueues(ctx)
	s.loadMappings(ctx)
	s.checkFunctions(ctx)
	s.checkTables(ctx)
	s.checkMappings()
	s.checkConcurrency(ctx)
	s.checkDeadLetters()
	s.checkSchedule(ctx)
	s.checkAlarms(ctx)
	return s.APIURL()
}

// loadStack reports whether the stack exists and can be read.
func (s *stackCheck) loadStack(ctx context.Context, name string) bool {
	stack, err := s.AWS.Stack(ctx, name)
	s.Stack = stack
	switch {
	case errors.Is(err, aws.ErrStackNotFound):
		s.report.fail("stack", "Check the name, the account and the region (AWS_REGION).", "there is no stack %s", name)
		return false
	case err != nil:
		s.report.fail("stack", "Use credentials that may read, such as those with AWS's policy ReadOnlyAccess, in the stack's account and region.", "cannot read %s: %v", name, err)
		return false
	}
	const next = "\"aws cloudformation describe-stack-events --stack-name NAME\" shows what went wrong; fix it and deploy again."
	reason := ""
	if stack.Reason != "" {
		reason = ": " + stack.Reason
	}
	switch status := stack.Status; {
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		s.report.warn("stack", "Check again when it has finished.", "%s is being changed: %s", name, status)
	case status == "UPDATE_ROLLBACK_COMPLETE":
		s.report.warn("stack", next, "the last update of %s failed and was rolled back%s", name, reason)
	case strings.HasSuffix(status, "_FAILED"), strings.HasPrefix(status, "ROLLBACK"), strings.HasPrefix(status, "DELETE"):
		s.report.fail("stack", next, "%s is %s%s", name, status, reason)
	default:
		s.report.pass("stack", "%s is %s, %s", name, status, pluralize(len(stack.Resources), "resource"))
	}
	return true
}

// loadFunctions reads the functions, and from their environment the tables and
// queues that the engine uses. It reports whether any function is the engine's.
func (s *stackCheck) loadFunctions(ctx context.Context) bool {
	s.tables = map[string]string{}
	urls := map[string]bool{}
	for _, name := range s.PhysicalIDs(aws.TypeFunction) {
		f, err := s.Function(ctx, name)
		if aws.IsNotFound(err) {
			s.report.fail("functions", "Deploy the stack again under another name, or restore the function: CloudFormation does not notice that it is missing.", "the function %s of the stack does not exist", name)
			continue
		}
		if err != nil {
			s.reportUnchecked("functions", err, "tables", "queues", "mappings", "concurrency", "dead-letter queues", "schedule", "alarms")
			return false
		}
		if f.Environment[topology.EnvTableJobs] == "" && f.Environment[topology.EnvQueueLifecycle] == "" {
			continue // not the engine's, in the same stack
		}
		s.functions = append(s.functions, f)
		for role, variable := range topology.TableEnv {
			if table := f.Environment[variable]; table != "" {
				s.tables[role] = table
			}
		}
		pools := map[string]string{}
		if text := f.Environment[topology.EnvQueueJobsURLs]; text != "" {
			_ = json.Unmarshal([]byte(text), &pools) // with invalid JSON the function would not have started
		}
		pools["/"] = f.Environment[topology.EnvQueueLifecycle] // no pool has this name
		if prefix := f.Environment[topology.EnvQueueJobsPrefix]; prefix != "" {
			for _, url := range s.PhysicalIDs(aws.TypeQueue) { // pools that functions find by name
				if name := lastSegment(url); strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, topology.DLQSuffix) {
					pools["/"+name] = url
				}
			}
		}
		for _, url := range pools {
			if url != "" && !urls[url] {
				urls[url] = true
				s.queueURLs = append(s.queueURLs, url)
			}
		}
	}
	if len(s.functions) == 0 {
		s.report.fail("functions", "Name the stack that contains the engine.", "no function of %s belongs to an engine", s.Name)
		return false
	}
	return true
}

// reportUnchecked adds a finding for a check that AWS did not answer, and marks the
// checks that depend on it. A missing permission may be intended, so it is a warning;
// any other error is a failure.
func (s *stackCheck) reportUnchecked(check string, err error, dependent ...string) {
	s.report.skip(append(dependent, check)...)
	if aws.IsAccessDenied(err) {
		s.report.warn(check, "Use credentials that may read, such as those with AWS's policy ReadOnlyAccess.", "not checked: %v", err)
		return
	}
	s.report.fail(check, "Check that the credentials have not expired, and try again; an emulator of AWS may not know the request.", "not checked: %v", err)
}

// lastSegment returns the last segment of an ARN or a URL.
func lastSegment(arn string) string { return arn[strings.LastIndexAny(arn, ":/")+1:] }

// consumer is a mapping of one of the engine's queues and its function. Both may belong to another
// stack.
type consumer struct {
	aws.Mapping
	function aws.Function
}

func (m consumer) disabled() bool {
	return m.State == "Disabled" || m.State == "Disabling" || m.State == "Deleting"
}

// loadQueues reads the stack's queues, and the engine's queues that belong to
// another stack.
func (s *stackCheck) loadQueues(ctx context.Context) {
	s.queues = map[string]aws.Queue{}
	urls := append(s.PhysicalIDs(aws.TypeQueue), s.queueURLs...)
	slices.Sort(urls)
	for _, url := range slices.Compact(urls) {
		q, err := s.Queue(ctx, url)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("queues", "Deploy the stack again under another name, or create the queue again with the same name: CloudFormation does not notice that it is missing.", "the queue %s does not exist", lastSegment(url))
		case err != nil:
			s.reportUnchecked("queues", err, "mappings", "functions", "dead-letter queues")
			s.queues = nil
			return
		default:
			s.queues[q.ARN] = q
		}
	}
}

// loadMappings reads the consumers of the queues. It lists the mappings by queue,
// since a function of another stack may serve a pool.
func (s *stackCheck) loadMappings(ctx context.Context) {
	s.consumers = map[string][]consumer{}
	for _, id := range s.PhysicalIDs(aws.TypeMapping) {
		_, err := s.Mapping(ctx, id)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("mappings", "Deploy the stack with another concurrency, and then with this one: CloudFormation then creates it again.", "the event source mapping %s of the stack does not exist", id)
		case err != nil:
			s.reportUnchecked("mappings", err, "queues", "functions")
			return
		}
	}
	known := map[string]bool{}
	for _, f := range s.functions {
		known[f.ARN] = true
	}
	for _, q := range s.workQueues() {
		all, err := s.Mappings(ctx, q.ARN)
		if err != nil {
			s.reportUnchecked("mappings", err, "queues", "functions")
			return
		}
		for _, m := range all {
			f, err := s.Function(ctx, m.FunctionARN)
			switch {
			case aws.IsNotFound(err):
				s.report.fail("mappings", "Deploy the function again, or delete the mapping "+m.ID+".", "%s is mapped to %s, which does not exist", q.Name, lastSegment(m.FunctionARN))
			case err != nil:
				s.reportUnchecked("mappings", err, "queues", "functions")
				return
			case !known[f.ARN]:
				known[f.ARN] = true
				s.externalFunctions = append(s.externalFunctions, f)
			}
			s.consumers[q.ARN] = append(s.consumers[q.ARN], consumer{m, f})
		}
	}
}
