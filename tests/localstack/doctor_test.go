package localstack

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lockstep-run/lockstep/tests/testkit"
)

// finding is a finding of lockstep doctor.
type finding struct{ Check, Level, Says, Next string }

// doctorFailures runs lockstep doctor on the deployed stack and returns the failures by
// check. It leaves out what LocalStack does not have, recursive loop detection and
// point-in-time recovery, and alarms, which other tests may have set off.
func doctorFailures(t *testing.T, s *deployedStack) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binary(t, "lockstep"), "doctor", "--stack", s.stackName, "--url", s.serveFunctionURL(t), "-o", "json")
	cmd.Env = localStack.Env()
	out, err := cmd.Output()
	var report struct{ Findings []finding }
	if decodeErr := json.Unmarshal(out, &report); decodeErr != nil {
		t.Fatalf("%v, %v: %s", err, decodeErr, out)
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
			t.Errorf("no finding of %s: %s", check, out)
		}
	}
	return failures
}

// checkDoctor checks that lockstep doctor finds the parts of a deployed stack, and changes
// made by hand.
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
	purgeDLQ() // of other tests' messages
	eventually(t, "lockstep doctor finds no failure", func() bool { return len(doctorFailures(t, s)) == 0 })

	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &dlqURL, MessageBody: aws.String("{}")}); err != nil {
		t.Fatal(err)
	}
	setVisibility("60")
	found := doctorFailures(t, s)
	if !strings.HasPrefix(found["dead-letter queues"], "1 message on ") || !strings.Contains(found["queues"], "want 5400 s") || len(found) != 2 {
		t.Errorf("with a dead letter and a short visibility timeout: %v", found)
	}
	purgeDLQ()
	setVisibility("5400")
}
