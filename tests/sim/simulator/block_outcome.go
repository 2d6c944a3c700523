package simulator

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// blockOutcome is what comes of a call of a block. It follows from the seed and the
// call alone, in whatever order calls are made.
func (p *scenario) blockOutcome(c harness.BlockCall) *harness.Outcome {
	o := &harness.Outcome{}
	m := p.FaultProfile
	if p.oneIn(m.BlockFailOneIn, "fail", c) {
		o.FailCode, o.Retryable = "REFUSED", p.oneIn(m.RetryableOneIn, "retry", c)
		return o
	}
	switch c.Kind {
	case workflow.JobAcquire:
		for i := range deviceCount {
			if p.hash("found"+deviceID(i), c)%3 == 0 {
				o.Acquired = append(o.Acquired, deviceID(i))
			}
		}
	case workflow.JobExecute:
		if c.Entity != "" && p.oneIn(m.SetAttributeOneIn, "set", c) {
			o.SetAttributes = map[string]any{"by": c.Job}
			if p.oneIn(2, "ready", c) {
				o.SetAttributes["ready"] = p.oneIn(2, "is", c)
			}
		}
	}
	return o
}

// oneIn is true for one call in so many; 0 is never.
func (p *scenario) oneIn(in int, what string, c harness.BlockCall) bool {
	return in > 0 && p.hash(what, c)%uint64(in) == 0
}

func (p *scenario) hash(what string, c harness.BlockCall) uint64 {
	h := fnv.New64a()
	var seed [9]byte
	binary.BigEndian.PutUint64(seed[:], p.Seed)
	seed[8] = byte(c.Attempt)
	h.Write(seed[:])
	for _, s := range []string{what, c.Step, string(c.Kind), c.Entity, c.Execution[len(c.Execution)-4:]} {
		h.Write([]byte(s))
	}
	return h.Sum64() >> 3
}
