package workerapi

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A receipt comes back as it was given, and one whose message was changed belongs
// to no claim.
func TestReceipt_RoundTripsAndDetectsChanges(t *testing.T) {
	original := &receipt{Version: receiptVersion, Pool: "edge", Handle: "h/1+2=", Nonce: "n1", Body: strings.Repeat(`{"a":"ü"}`, 5000)}
	text, err := original.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseReceipt(text)
	if err != nil || *back != *original || back.claimNonce() != original.claimNonce() {
		t.Fatalf("%+v %v", back, err)
	}
	for name, change := range map[string]func(*receipt){
		"message": func(r *receipt) { r.Body += " " },
		"nonce":   func(r *receipt) { r.Nonce = "n2" },
		"pool":    func(r *receipt) { r.Pool = "other" },
		"handle":  func(r *receipt) { r.Handle += "x" },
		"border":  func(r *receipt) { r.Pool, r.Handle = r.Pool+r.Handle[:1], r.Handle[1:] },
	} {
		other := *original
		if change(&other); other.claimNonce() == original.claimNonce() {
			t.Errorf("a receipt with another %s has the same claim", name)
		}
	}
	newer := *original
	newer.Version++
	later, err := newer.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", "x", "!!", text[:len(text)/2], later} {
		if _, err := parseReceipt(wrong); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
}

// A pack is for a worker that names its block, of its own tenant.
func TestServesPack_MatchesTenantAndBlock(t *testing.T) {
	m := &workflow.PackMessage{Key: workflow.PackKey{Tenant: "a"}, Work: workflow.Work{Block: "p/x:1.2.0"}}
	for _, c := range []struct {
		tenant, block string
		want          bool
	}{
		{"a", "p/x", true}, {"a", "p/x:1", true}, {"a", "p/x:1.2.0", true}, {"a", "p/x:1.1", false}, {"a", "p/y", false}, {"b", "p/x", false},
	} {
		if got := servesPack(c.tenant, []string{"p/z", c.block}, m); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
