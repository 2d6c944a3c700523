package workerapi

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// attempt is one request of a poll. Its worker may repeat the request under an id that it has
// chosen, if it gets no response. All requests with one id get the same response: one pack, or
// none. They may run concurrently, late, or crash anywhere. One item decides: before a request
// claims a pack it stores the receipt there, and before it responds that there is none it stores
// that, each on the condition that no other request has stored something since.
//
// A request that finds a receipt stores it again, so that the request which stored it cannot move
// on to another pack. Then it claims the receipt's pack, with the nonce in the receipt, or leases
// it once more if it is claimed with this nonce and nobody has reported about it. It never claims
// another pack, because the worker may have received its response long ago.
//
// Without an id nothing is stored.
type attempt struct {
	service *Service
	caller  workflow.Caller
	poll    views.JobPoll
	seen    string // the stored version, "" for nothing
}

const (
	// attemptLife is how long the response of an attempt is kept: longer than a request takes,
	// including all repetitions, and longer than a lease.
	attemptLife = 6 * time.Hour

	maxAttemptReads = 6 // how often a request rereads what other requests of its attempt have stored
)

// errAttemptTaken means that another request has stored something for the attempt.
var errAttemptTaken = errors.New("another request of this poll has gone on")

func (s *Service) newAttempt(c workflow.Caller, r views.JobPoll) *attempt {
	return &attempt{service: s, caller: c, poll: r}
}

func (a *attempt) key() workflow.PollAttempt {
	return workflow.PollAttempt{Tenant: a.caller.Tenant, Worker: a.poll.Worker, ID: a.poll.Attempt}
}

// save stores the receipt of the pack that is claimed next. It seals a receipt whose message
// contains a token.
func (a *attempt) save(ctx context.Context, packs Packs, r *receipt, m *workflow.PackMessage) error {
	if a.poll.Attempt == "" {
		return nil
	}
	packed, err := r.compress()
	if err == nil && m.HoldsToken {
		var keys token.Keys
		if keys, err = a.service.TokenKeys(ctx); err == nil {
			packed, err = keys.Seal(packed)
		}
	}
	if err != nil {
		return err
	}
	return a.put(ctx, packs, packed)
}

// put stores a receipt or, if it is empty, that there is no pack. errAttemptTaken means that
// another request has stored something since.
func (a *attempt) put(ctx context.Context, packs Packs, receipt []byte) error {
	next := workflow.PollReceipt{Version: a.service.NewNonce(), Receipt: receipt, ExpiresAt: a.service.Now().Add(attemptLife)}
	ok, err := packs.SavePollReceipt(ctx, a.key(), a.seen, next)
	if err != nil {
		return err
	}
	if !ok {
		return errAttemptTaken
	}
	a.seen = next.Version
	return nil
}

// repeat gives a request the response of earlier ones: their pack, or none. answered is false if
// there was no earlier request, or if none has stored anything.
func (a *attempt) repeat(ctx context.Context) (offer *views.PackOffer, answered bool, err error) {
	if a.poll.Attempt == "" {
		return nil, false, nil
	}
	for range maxAttemptReads {
		ports, p := a.service.ports()
		stored, err := ports.Packs.PollReceipt(ctx, a.key())
		if err != nil || stored == nil {
			return nil, false, err
		}
		if len(stored.Receipt) == 0 {
			return nil, true, nil
		}
		a.seen = stored.Version
		switch err := a.put(ctx, ports.Packs, stored.Receipt); {
		case errors.Is(err, errAttemptTaken):
			continue
		case err != nil:
			return nil, true, err
		}
		if offer, err := a.offerAgain(ctx, stored, ports, p); offer != nil || err != nil {
			return offer, true, err
		}
		err = a.put(ctx, ports.Packs, nil)
		if !errors.Is(err, errAttemptTaken) {
			return nil, true, err
		}
	}
	return nil, true, workflow.Errorf(workflow.CodeUnavailable, "other requests of poll %s are under way: try again", a.poll.Attempt)
}

// endWithoutPack responds that there is no pack, unless another request has found one.
func (a *attempt) endWithoutPack(ctx context.Context) (*views.PackOffer, error) {
	if a.poll.Attempt == "" {
		return nil, nil
	}
	ports, _ := a.service.ports()
	err := a.put(ctx, ports.Packs, nil)
	if !errors.Is(err, errAttemptTaken) {
		return nil, err
	}
	offer, _, err := a.repeat(ctx)
	return offer, err
}

// openReceipt decodes a stored receipt.
func (s *Service) openReceipt(ctx context.Context, stored []byte) (*receipt, error) {
	if !token.Sealed(stored) {
		return decompressReceipt(stored)
	}
	keys, err := s.TokenKeys(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := keys.Open(stored)
	if err != nil {
		return nil, err
	}
	return decompressReceipt(plain)
}

// offerAgain offers the pack of a stored receipt; nil if the worker may not have it, or not any
// more.
func (a *attempt) offerAgain(ctx context.Context, stored *workflow.PollReceipt, ports Ports, p worker.Ports) (*views.PackOffer, error) {
	s := a.service
	rcpt, err := s.openReceipt(ctx, stored.Receipt)
	if err != nil {
		return nil, err
	}
	m, err := s.Decode(rcpt.Body)
	if err != nil || !servesPack(a.caller.Tenant, a.poll.Blocks, m) {
		return nil, err
	}
	seen, err := ports.Packs.Pack(ctx, m.Key)
	if err != nil {
		return nil, err
	}
	q, err := s.PoolQueue(ctx, rcpt.Pool)
	if err != nil {
		return nil, err
	}
	d := worker.Delivery{ReceiptHandle: rcpt.Handle, Body: rcpt.Body, ReceiveCount: 1}
	switch {
	case seen == nil: // the request that received the message has not claimed the pack yet, or has crashed
		return s.claimReceipt(ctx, a, q, d, m, rcpt, p)
	case seen.State != workflow.PackClaimed || seen.Nonce != rcpt.claimNonce():
		return nil, nil
	}
	w := s.sdkWorker(a.poll.Worker, rcpt.claimNonce())
	lease, err := w.RepeatRemote(ctx, m, seen, p)
	if err != nil || lease == nil {
		return nil, err
	}
	if err := q.Defer(ctx, d, w.Options().LeaseDuration); err != nil {
		s.logWarning(ctx, "message visibility not extended; it may be delivered twice", m, err)
	}
	return s.offer(ctx, a, m, lease, rcpt)
}
