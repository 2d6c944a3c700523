package simulator

import "fmt"

// Rule names what every correct run keeps to on every device.
type Rule string

// The rules.
const (
	// RuleFenceDecreased: the fences of the accepted changes never decrease. The
	// device sees to that itself, so this rule judges the device.
	RuleFenceDecreased Rule = "fence_decreased"
	// RuleOverlapped: no change begins while another one is under way. Excused is
	// one with the same lock token that either carries the same idempotency
	// key (a takeover of the same job) or comes after the other one's caller
	// hung up (a retry after a time-out): the device alone is still busy then.
	// Two lock tokens at the same time are never excused.
	RuleOverlapped Rule = "overlapped"
	// RuleAppliedTwice: one idempotency key has at most one effective application,
	// whatever fences its repeats carry.
	RuleAppliedTwice Rule = "applied_twice"
	// RuleStartedTwice: a change that is not idempotent is accepted at most once
	// for one idempotency key, even if the first one had no effect: its
	// caller could not know.
	RuleStartedTwice Rule = "started_twice"
	// RuleTokenChanged: all accepted changes of one idempotency key carry the same
	// lock token, because a job belongs to one hold of a lock.
	RuleTokenChanged Rule = "token_changed"
	// RuleKeyReused: one idempotency key stands for one operation with one
	// requested state.
	RuleKeyReused Rule = "key_reused"
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

// CheckLog finds what is wrong in a device's own log; nothing, if the run was
// right. A refused change, by fence or otherwise, breaks no rule: it had no
// effect. The log may come from the fleet in this process or from the device over HTTP.
func CheckLog(device string, log []LogEntry) []Violation {
	var violations []Violation
	bySeq := map[int]LogEntry{}
	firstOf := map[string]LogEntry{}     // key: first accepted entry
	effectiveOf := map[string]LogEntry{} // key: first effective entry
	var last *LogEntry
	for _, e := range log {
		bySeq[e.Seq] = e
		if !e.Accepted {
			continue
		}
		addViolation := func(rule Rule, first int, format string, args ...any) {
			violations = append(violations, Violation{Device: device, Rule: rule, First: first, Second: e.Seq, Detail: fmt.Sprintf(format, args...)})
		}
		if last != nil && e.Fence < last.Fence {
			addViolation(RuleFenceDecreased, last.Seq, "fence %s after %s", e.Fence, last.Fence)
		}
		last = &e
		if e.Overlap {
			other := bySeq[e.Overlaps]
			excused := other.Token == e.Token && (other.IdempotencyKey == e.IdempotencyKey || e.CallerGone)
			if !excused {
				addViolation(RuleOverlapped, e.Overlaps, "%s with fence %s during %s with fence %s", e.Operation, e.Fence, other.Operation, other.Fence)
			}
		}
		key := e.IdempotencyKey
		if first, again := firstOf[key]; !again {
			firstOf[key] = e
		} else {
			if first.Operation != e.Operation || first.Requested != e.Requested {
				addViolation(RuleKeyReused, first.Seq, "key %s for %s %s and %s %s", key, first.Operation, first.Requested, e.Operation, e.Requested)
			}
			if first.Token != e.Token {
				addViolation(RuleTokenChanged, first.Seq, "key %s with tokens %d and %d", key, first.Token, e.Token)
			}
			if e.Operation == OpTouch {
				addViolation(RuleStartedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			}
		}
		if e.Effective {
			if first, again := effectiveOf[key]; again {
				addViolation(RuleAppliedTwice, first.Seq, "key %s with fences %s and %s", key, first.Fence, e.Fence)
			} else {
				effectiveOf[key] = e
			}
		}
	}
	return violations
}
