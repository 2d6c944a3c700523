package workload

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Outcome is what comes of a call of a block. It follows from the seed and the
// call alone, in whatever order calls are made.
func (p *Play) Outcome(c stage.Call) *stage.Outcome {
	o := &stage.Outcome{}
	m := p.Mood
	if p.once(m.Fail, "fail", c) {
		o.Fail, o.Retryable = "REFUSED", p.once(m.Retry, "retry", c)
		return o
	}
	switch c.Kind {
	case workflow.JobAcquire:
		for i := range Devices {
			if p.number("found"+deviceName(i), c)%3 == 0 {
				o.Found = append(o.Found, deviceName(i))
			}
		}
	case workflow.JobExecute:
		if c.Entity != "" && p.once(m.Set, "set", c) {
			o.Set = map[string]any{"by": c.Job}
			if p.once(2, "ready", c) {
				o.Set["ready"] = p.once(2, "is", c)
			}
		}
	}
	return o
}

// once is true for one call in so many; 0 is never.
func (p *Play) once(in int, what string, c stage.Call) bool {
	return in > 0 && p.number(what, c)%uint64(in) == 0
}

func (p *Play) number(what string, c stage.Call) uint64 {
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
