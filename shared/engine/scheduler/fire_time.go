package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// ExecutionID is the id of the run of a moment: a UUIDv7 of the moment's millisecond, whose
// other bits follow from the schedule, the moment, and the floor of the tokens: after
// a restore a moment that comes once more has another run, since devices may have seen
// the jobs of the one that is forgotten.
func ExecutionID(tenant, name string, at time.Time, minFencingToken int64) string {
	ms := uint64(at.UnixMilli())
	text := tenant + "\x00" + name + "\x00" + at.UTC().Format(time.RFC3339Nano)
	if minFencingToken > 0 {
		text += "\x00" + strconv.FormatInt(minFencingToken, 10)
	}
	sum := sha256.Sum256([]byte(text))
	var id uuid.UUID
	copy(id[:], sum[:])
	binary.BigEndian.PutUint32(id[:4], uint32(ms>>16))
	binary.BigEndian.PutUint16(id[4:6], uint16(ms))
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// latestFireTime is the newest moment of a schedule that is not after now, where next is
// one that has come: of all that were missed only this one is made up for. It
// looks back in growing steps, so that a long absence costs little.
func latestFireTime(c *spec.Cron, next, now time.Time) (time.Time, error) {
	for back := time.Second; now.Add(-back).After(next); back *= 2 {
		at, err := definition.NextFireTime(c, now.Add(-back))
		if err != nil {
			return next, err
		}
		if at.After(now) {
			continue
		}
		next = at
		break
	}
	for {
		at, err := definition.NextFireTime(c, next)
		if err != nil || at.After(now) {
			return next, nil //nolint:nilerr // it came, and does not come again
		}
		next = at
	}
}
