package devicelog

import "fmt"

// Rule names what every correct run keeps to on every device.
type Rule string

// The rules.
const (
	// FenceDecreased: the fences of the accepted changes never decrease. The
	// device sees to that itself, so this rule judges the device.
	FenceDecreased Rule = "fence_decreased"
	// Overlapped: no change begins while another one is under way. Excused is
	// one with the same lock token that either carries the same idempotency
	// key (a takeover of the same job) or comes after the other one's caller
	// hung up (a retry after a time-out): the device alone is still busy then.
	// Two lock tokens at the same time are never excused.
	Overlapped Rule = "overlapped"
	// AppliedTwice: one idempotency key has at most one effective application,
	// whatever fences its repeats carry.
	AppliedTwice Rule = "applied_twice"
	// StartedTwice: a change that is not idempotent is accepted at most once
	// for one idempotency key, even if the first one had no effect: its
	// caller could not know.
	StartedTwice Rule = "started_twice"
	// TokenChanged: all accepted changes of one idempotency key carry the same
	// lock token, because a job belongs to one hold of a lock.
	TokenChanged Rule = "token_changed"
	// KeyReused: one idempotency key stands for one operation with one
	// requested state.
	KeyReused Rule = "key_reused"
)

// Violation is a rule broken by two entries of one device's log.
type Violation struct {
	Device string `json:"device"`
	Rule   Rule   `json:"rule"`
	First  int    `json:"first"`  // sequence of the earlier entry
	Second int    `json:"second"` // and of the one that broke the rule
	Detail string `json:"detail"`
}

// String says it in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s by entry %d after %d: %s", v.Device, v.Rule, v.Second, v.First, v.Detail)
}

// Judge finds what is wrong in a device's own log; nothing, if the run was
// right. A refused change, by fence or otherwise, breaks no rule: it had no
// effect. The log may come from the fleet in this process or from the device over HTTP.
func Judge(device string, log []Entry) []Violation {
	var found []Violation
	bySeq := map[int]Entry{}
	firstOf := map[string]Entry{}     // key: first accepted entry
	effectiveOf := map[string]Entry{} // key: first effective entry
	var last *Entry
	for _, e := range log {
		bySeq[e.Seq] = e
		if !e.Accepted {
			continue
		}
		breaks := func(rule Rule, first int, format string, args ...any) {
			found = append(found, Violation{Device: device, Rule: rule, First: first, Second: e.Seq, Detail: fmt.Sprintf(format, args...)})
		}
		if last != nil && e.Fence < last.Fence {
			breaks(FenceDecreased, last.Seq, "fence %s after %s", e.Fence, last.Fence)
		}
		last = &e
		if e.Overlap {
			other := bySeq[e.Overlaps]
			excused := other.Token == e.Token && (other.IdempotencyKey == e.IdempotencyKey || e.CallerGone)
			if !excused {
				breaks(Overlapped, e.Overlaps, "%s with fence %s during %s with fence %s", e.Operation, e.Fence, other.Operation, other.Fence)
			}
		}
		key := e.IdempotencyKey
		if first, again := firstOf[key]; !again {
			firstOf[key] = e
		} else {
			if first.Operation != e.Operation || first.Requested != e.Requested {
				breaks(KeyReused, first.Seq, "key %s for %s %s and %s %s", key, first.Operation, first.Requested, e.Operation, e.Requested)
			}
			if first.Token != e.Token {
				breaks(TokenChanged, first.Seq, "key %s with tokens %d and %d", key, first.Token, e.Token)
			}
			if e.Operation == Touch {
				breaks(StartedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			}
		}
		if e.Effective {
			if first, again := effectiveOf[key]; again {
				breaks(AppliedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			} else {
				effectiveOf[key] = e
			}
		}
	}
	return found
}
