package doctor

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
)

// consumer is a mapping of one of the engine's queues, and the function by which the
// queue is worked on. Both may be of another stack.
type consumer struct {
	aws.Mapping
	function aws.Function
}

func (m consumer) disabled() bool {
	return m.State == "Disabled" || m.State == "Disabling" || m.State == "Deleting"
}

// loadQueues reads all of the stack's queues, and those of its functions that are
// another stack's.
func (s *stackCheck) loadQueues(ctx context.Context) {
	s.queues = map[string]aws.Queue{}
	urls := append(s.PhysicalIDs(aws.TypeQueue), s.queueURLs...)
	slices.Sort(urls)
	for _, url := range slices.Compact(urls) {
		q, err := s.Queue(ctx, url)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("queues", "Deploy the stack again under another name, or make the queue again with the same: CloudFormation does not see that it is gone.", "the queue %s is not there", lastSegment(url))
		case err != nil:
			s.reportUnchecked("queues", err, "mappings", "functions", "dead-letter queues")
			s.queues = nil
			return
		default:
			s.queues[q.ARN] = q
		}
	}
}

// loadMappings learns who works on the queues: a pool may be served by a function
// of another stack, which a look at this one's parts would take for nobody.
func (s *stackCheck) loadMappings(ctx context.Context) {
	s.consumers = map[string][]consumer{}
	for _, id := range s.PhysicalIDs(aws.TypeMapping) {
		_, err := s.Mapping(ctx, id)
		switch {
		case aws.IsNotFound(err):
			s.report.fail("mappings", "Deploy the stack again with another concurrency, and then with this one: CloudFormation makes it anew.", "the event source mapping %s of the stack is not there", id)
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
				s.report.fail("mappings", "Deploy the function again, or delete the mapping "+m.ID+".", "%s is handed to %s, which is not there", q.Name, lastSegment(m.FunctionARN))
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
