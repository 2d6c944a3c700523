package doctor

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/cloud"
)

// served is a mapping of one of the engine's queues, and the function by which the
// queue is worked on. Both may be of another stack.
type served struct {
	cloud.Mapping
	by cloud.Function
}

func (m served) off() bool {
	return m.State == "Disabled" || m.State == "Disabling" || m.State == "Deleting"
}

// findQueues reads all of the stack's queues, and those of its functions that are
// another stack's.
func (s *stack) findQueues(ctx context.Context) {
	s.queues = map[string]cloud.Queue{}
	urls := append(s.Of(cloud.KindQueue), s.sources...)
	slices.Sort(urls)
	for _, url := range slices.Compact(urls) {
		q, err := s.Queue(ctx, url)
		switch {
		case cloud.Gone(err):
			s.report.fail("queues", "Deploy the stack again under another name, or make the queue again with the same: CloudFormation does not see that it is gone.", "the queue %s is not there", short(url))
		case err != nil:
			s.unasked("queues", err, "mappings", "functions", "dead-letter queues")
			s.queues = nil
			return
		default:
			s.queues[q.ARN] = q
		}
	}
}

// findMappings learns who works on the queues: a pool may be served by a function
// of another stack, which a look at this one's parts would take for nobody.
func (s *stack) findMappings(ctx context.Context) {
	s.served = map[string][]served{}
	for _, id := range s.Of(cloud.KindMapping) {
		_, err := s.Mapping(ctx, id)
		switch {
		case cloud.Gone(err):
			s.report.fail("mappings", "Deploy the stack again with another concurrency, and then with this one: CloudFormation makes it anew.", "the event source mapping %s of the stack is not there", id)
		case err != nil:
			s.unasked("mappings", err, "queues", "functions")
			return
		}
	}
	known := map[string]bool{}
	for _, f := range s.functions {
		known[f.ARN] = true
	}
	for _, q := range s.worked() {
		all, err := s.Mappings(ctx, q.ARN)
		if err != nil {
			s.unasked("mappings", err, "queues", "functions")
			return
		}
		for _, m := range all {
			f, err := s.Function(ctx, m.Function)
			switch {
			case cloud.Gone(err):
				s.report.fail("mappings", "Deploy the function again, or delete the mapping "+m.ID+".", "%s is handed to %s, which is not there", q.Name, short(m.Function))
			case err != nil:
				s.unasked("mappings", err, "queues", "functions")
				return
			case !known[f.ARN]:
				known[f.ARN] = true
				s.others = append(s.others, f)
			}
			s.served[q.ARN] = append(s.served[q.ARN], served{m, f})
		}
	}
}
