package localstack

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// finding is one of the command's.
type finding struct{ Check, Level, Says, Next string }

// doctor examines the deployed stack by the command, and returns what has failed
// of its parts, by check. Left out is what LocalStack does not keep, and the doctor
// sees: it forgets that functions may loop, and the database has no recovery to turn
// on. So are alarms, which look back at what other tests have done.
func doctor(t *testing.T, s *stage) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built(t, "lockstep"), "doctor", "--stack", s.stack, "--url", s.door(t), "-o", "json")
	cmd.Env = emulator.Env()
	out, err := cmd.Output()
	var report struct{ Findings []finding }
	if failure := json.Unmarshal(out, &report); failure != nil {
		t.Fatalf("%v, %v: %s", err, failure, out)
	}
	checks, found := map[string]bool{}, map[string]string{}
	for _, f := range report.Findings {
		checks[f.Check] = true
		emulated := strings.Contains(f.Says, "takes for a loop") || strings.Contains(f.Says, "not to be restored")
		if f.Level == "failure" && !emulated && f.Check != "alarms" {
			found[f.Check] = f.Says
		}
	}
	for _, check := range []string{"stack", "functions", "tables", "mappings", "queues", "dead-letter queues", "schedule", "alarms", "address", "rights", "sweep"} {
		if !checks[check] {
			t.Errorf("nothing is said of %s: %s", check, out)
		}
	}
	return found
}

// examined: the command finds the parts of a deployed stack, and what somebody has
// spoiled there by hand.
func examined(t *testing.T, s *stage) {
	t.Helper()
	client := sqsClient()
	queue, dead := s.output(t, "JobsDefaultUrl"), s.output(t, "LifecycleDlqUrl")
	set := func(visibility string) {
		t.Helper()
		change := &sqs.SetQueueAttributesInput{QueueUrl: &queue, Attributes: map[string]string{"VisibilityTimeout": visibility}}
		if _, err := client.SetQueueAttributes(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	empty := func() {
		t.Helper()
		if _, err := client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &dead}); err != nil {
			t.Fatal(err)
		}
	}
	empty() // of what other tests have left
	eventually(t, "the doctor finds nothing", func() bool { return len(doctor(t, s)) == 0 })

	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &dead, MessageBody: aws.String("{}")}); err != nil {
		t.Fatal(err)
	}
	set("60")
	found := doctor(t, s)
	if !strings.HasPrefix(found["dead-letter queues"], "1 message on ") || !strings.Contains(found["queues"], "want 5400 s") || len(found) != 2 {
		t.Errorf("with a dead letter and a short visibility time-out it finds %v", found)
	}
	empty()
	set("5400")
}
