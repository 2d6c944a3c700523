package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// unknownExecutionID is the id of no run: ids have the moment in them at which they were made.
const unknownExecutionID = "00000000-0000-7000-8000-000000000000"

// checkPermissions finds out what the caller may do, by asking for what no service can do:
// one that lets the caller in says that it is invalid or not there, one that does
// not says so first. It reports whether the caller may read.
func (s *serviceCheck) checkPermissions(ctx context.Context) bool {
	read := func() error {
		for _, err := range s.Executions(ctx, views.ExecutionFilter{}) {
			return err
		}
		return nil
	}
	probes := []struct {
		may string
		ask func() error
	}{
		{"read", read},
		{"start runs", func() error { _, _, err := s.Start(ctx, views.StartRequest{}); return err }},
		{"publish", func() error { _, _, err := s.Publish(ctx, []byte("{}"), true); return err }},
		{"import", func() error { _, err := s.ImportEntities(ctx, strings.NewReader("{}")); return err }},
		{"cancel", func() error { _, err := s.Cancel(ctx, unknownExecutionID, views.CancelRequest{}); return err }},
		{"redrive", func() error { _, err := s.Redrive(ctx, views.RedriveRequest{Queue: "-"}); return err }},
	}
	var may, not []string
	for i, p := range probes {
		err := p.ask()
		var answer *workflow.Error
		switch {
		case workflow.Is(err, workflow.CodeUnauthorized):
			s.report.fail("rights", "Set the credentials that the service asks for: those of AWS, or LOCKSTEP_TOKEN.", "the service does not know the caller: %v", err)
			return false
		case workflow.Is(err, workflow.CodeForbidden) && i == 0:
			s.report.fail("rights", "Allow execute-api:Invoke on the API, or use credentials that have it; with AWS credentials, see that none are missing and the clock is right.", "the caller may not even read: %v", err)
			return false
		case workflow.Is(err, workflow.CodeForbidden):
			not = append(not, p.may)
		case err != nil && (!errors.As(err, &answer) || answer.Code.HTTPStatus() >= 500):
			s.report.fail("rights", "The log of the function api says why.", "whether the caller may %s is not known: %v", p.may, err)
			return i > 0
		default:
			may = append(may, p.may)
		}
	}
	if len(not) > 0 {
		s.report.warn("rights", "It may be meant. If not, allow execute-api:Invoke on those routes.", "the caller may %s, and may not %s", strings.Join(may, ", "), strings.Join(not, ", "))
		return true
	}
	s.report.pass("rights", "the caller may %s", strings.Join(may, ", "))
	return true
}
