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

// doctorFailures examines the deployed stack by the command, and returns what has failed
// of its parts, by check. Left out is what LocalStack does not keep, and the doctor
// sees: it forgets that functions may loop, and the database has no recovery to turn
// on. So are alarms, which look back at what other tests have done.
func doctorFailures(t *testing.T, s *deployedStack) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), builtProgram(t, "lockstep"), "doctor", "--stack", s.stackName, "--url", s.serveFunctionURL(t), "-o", "json")
	cmd.Env = localStack.Env()
	out, err := cmd.Output()
	var report struct{ Findings []finding }
	if failure := json.Unmarshal(out, &report); failure != nil {
		t.Fatalf("%v, %v: %s", err, failure, out)
	}
	checks, failures := map[string]bool{}, map[string]string{}
	for _, f := range report.Findings {
		checks[f.Check] = true
		emulated := strings.Contains(f.Says, "for a loop and would stop") || strings.Contains(f.Says, "point-in-time recovery is off")
		if f.Level == "failure" && !emulated && f.Check != "alarms" {
			failures[f.Check] = f.Says
		}
	}
	for _, check := range []string{"stack", "functions", "tables", "mappings", "queues", "dead-letter queues", "schedule", "alarms", "address", "rights", "sweep"} {
		if !checks[check] {
			t.Errorf("nothing is said of %s: %s", check, out)
		}
	}
	return failures
}

// checkDoctor: the command finds the parts of a deployed stack, and what somebody has
// spoiled there by hand.
func checkDoctor(t *testing.T, s *deployedStack) {
	t.Helper()
	client := sqsClient()
	queue, dlqURL := s.output(t, "JobsDefaultUrl"), s.output(t, "LifecycleDlqUrl")
	setVisibility := func(visibility string) {
		t.Helper()
		change := &sqs.SetQueueAttributesInput{QueueUrl: &queue, Attributes: map[string]string{"VisibilityTimeout": visibility}}
		if _, err := client.SetQueueAttributes(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	purgeDLQ := func() {
		t.Helper()
		if _, err := client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &dlqURL}); err != nil {
			t.Fatal(err)
		}
	}
	purgeDLQ() // of what other tests have left
	eventually(t, "the doctor finds nothing", func() bool { return len(doctorFailures(t, s)) == 0 })

	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &dlqURL, MessageBody: aws.String("{}")}); err != nil {
		t.Fatal(err)
	}
	setVisibility("60")
	found := doctorFailures(t, s)
	if !strings.HasPrefix(found["dead-letter queues"], "1 message on ") || !strings.Contains(found["queues"], "want 5400 s") || len(found) != 2 {
		t.Errorf("with a dead letter and a short visibility time-out it finds %v", found)
	}
	purgeDLQ()
	setVisibility("5400")
}
