package workflow_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A signature is that of its time and body, as other programs compute it.
func TestSign(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := workflow.Sign([]byte("key"), at, []byte(`{}`))
	if want := "t=1700000000,v1=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, other := range map[string]string{
		"another body": workflow.Sign([]byte("key"), at, []byte(`{} `)), "another key": workflow.Sign([]byte("kez"), at, []byte(`{}`)), "another time": workflow.Sign([]byte("key"), at.Add(time.Second), []byte(`{}`)),
	} {
		if got == other {
			t.Errorf("%s has the same signature", name)
		}
	}
}
