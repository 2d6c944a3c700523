// Package visits decides about the steps of a run: which is visited next, when a
// visit has ended and how, what a rollback undoes.
//
//   - walk.go goes through the tree of steps, depth first, and enters them.
//   - running.go cuts a visit into packs, follows it, and judges its end.
//   - timing.go lets a step wait before it begins; child.go starts a run for a step
//     and waits for it.
//   - closing.go ends what is open when a run fails or is cancelled, and says what
//     is left of it; rollback.go undoes that, wave by wave.
package visits

import "github.com/lockstep-run/lockstep/shared/lifecycle/draft"

// Visits decides about the steps of a draft.
type Visits struct{ *draft.Draft }
