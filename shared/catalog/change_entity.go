package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// deletedRetention is how long the version and the token of a deleted entity are kept. No handler
// works that long with what it has read.
const deletedRetention = 30 * 24 * time.Hour

// PatchEntity changes some attributes and groups of an entity, and leaves the others unchanged. It
// writes on the condition that the entity has not changed since it was read; if somebody else has
// written it, it reads it again. A patch that changes nothing writes nothing and succeeds, whatever
// version it names, so that it may be sent again if its response was lost.
func (c *Catalog) PatchEntity(ctx context.Context, caller workflow.Caller, key workflow.EntityKey, patch views.EntityPatch) (workflow.Entity, error) {
	ports := c.openPorts()
	for range maxMergeRounds {
		old, err := c.Entity(ctx, caller, key)
		if err != nil {
			return old, err
		}
		next, differs := applyPatch(old, patch)
		if !differs {
			return old, nil
		}
		if err := checkVersion(old, patch.Version); err != nil {
			return old, err
		}
		if err := workflow.Invalid("the entity would not be valid", inventory.ValidateEntity(&next, "")); err != nil {
			return old, err
		}
		ok, watchers, err := ports.Registry.WriteEntities(ctx, caller.Tenant, []workflow.EntityWrite{{Entity: next, SeenVersion: old.Version}})
		ports.wake(ctx, caller.Tenant, watchers)
		if err != nil {
			return old, err
		}
		if ok[0] {
			next.Version++
			return next, nil
		}
	}
	return workflow.Entity{}, workflow.Contended(workflow.CodeUnavailable, "%s", key)
}

// applyPatch returns the entity after the patch: first names are set and groups added, then names
// and groups are removed. differs is false if that changes nothing.
func applyPatch(e workflow.Entity, p views.EntityPatch) (patched workflow.Entity, differs bool) {
	patched = e
	patched.Attributes = workflow.ApplyUpdates(e.Attributes, []workflow.Update{{Set: p.Set, Remove: p.Remove}})
	patched.Groups = slices.Clone(e.Groups)
	for _, g := range p.AddGroups {
		if !slices.Contains(patched.Groups, g) {
			patched.Groups = append(patched.Groups, g)
		}
	}
	patched.Groups = slices.DeleteFunc(patched.Groups, func(g string) bool { return slices.Contains(p.RemoveGroups, g) })
	return patched, !inventory.SameJSON(e.Attributes, patched.Attributes) || !slices.Equal(e.Groups, patched.Groups)
}

// checkVersion refuses a change if the entity has another version than the one named.
func checkVersion(e workflow.Entity, want *int64) error {
	if want == nil || *want == e.Version {
		return nil
	}
	return &workflow.Error{
		Code: workflow.CodeConflict, Message: fmt.Sprintf("%s has version %d, not %d: read it again", e.Key(), e.Version, *want),
		Issues: []workflow.Issue{{Path: "version", Code: "version", Message: fmt.Sprintf("the entity has version %d", e.Version)}},
	}
}

// DeleteEntity deletes an entity that no execution holds, has reserved or waits for. The lock and
// the entity are two items, and an execution reads its entities while it locks them, but not before
// it has read the lock. So deletion takes four steps:
//
//  1. Mark the entity, at the version that was read.
//  2. Raise the revision of the lock, so that nobody takes it who read it before the mark.
//  3. Read the lock. A holder may have read the entity before the mark, so the
//     deletion is then refused.
//  4. Delete the entity if it still has that version.
//
// An execution that takes the lock after step 3 has read it after the mark, and the entity after
// that. It either finds the mark or, if step 4 was faster, finds no entity. If it finds the mark, it
// writes the entity before working on it (see engine.readHeldEntities), and step 4 fails.
//
// A mark is not a deletion. If a deletion is refused, fails or crashes, the mark stays; everybody
// reads the entity as before, and the next write, or the next deletion at that version, replaces
// it. So nothing has to be undone, and a write in between is not lost but stops the deletion.
func (c *Catalog) DeleteEntity(ctx context.Context, caller workflow.Caller, key workflow.EntityKey, version *int64) (workflow.Entity, error) {
	ports := c.openPorts()
	e, err := c.Entity(ctx, caller, key)
	if err != nil {
		return e, err
	}
	if err := checkVersion(e, version); err != nil {
		return e, err
	}
	lock, err := ports.Locks.LockOf(ctx, caller, key)
	if err != nil {
		return e, err
	}
	if err := inUse(lock); err != nil {
		return e, err
	}
	ok, err := ports.Registry.MarkDeletion(ctx, caller.Tenant, key, e.Version)
	if err != nil {
		return e, err
	}
	if !ok {
		return e, c.changedMeanwhile(ctx, ports, caller, key)
	}
	if err := ports.LockItems.Outdate(ctx, caller.Tenant, key); err != nil {
		return e, err
	}
	if lock, err = ports.Locks.LockOf(ctx, caller, key); err != nil {
		return e, err
	}
	if lock.HeldBy != nil {
		return e, inUse(lock)
	}
	ok, watchers, err := ports.Registry.DeleteEntity(ctx, caller.Tenant, key, e.Version, c.now().Add(deletedRetention))
	ports.wake(ctx, caller.Tenant, watchers)
	if err != nil {
		return e, err
	}
	if !ok {
		return e, c.changedMeanwhile(ctx, ports, caller, key)
	}
	return e, nil
}

// changedMeanwhile returns why an entity that has a new version is not deleted: somebody has locked
// it, or has written it.
func (c *Catalog) changedMeanwhile(ctx context.Context, ports Ports, caller workflow.Caller, key workflow.EntityKey) error {
	lock, err := ports.Locks.LockOf(ctx, caller, key)
	if err != nil {
		return err
	}
	if lock.HeldBy != nil {
		return inUse(lock)
	}
	return workflow.Errorf(workflow.CodeConflict, "somebody else has changed %s meanwhile: read it again", key)
}

// inUse returns the refusal to delete an entity that is locked; nil if it is not.
func inUse(l views.LockView) error {
	refuse := func(code, format string, args ...any) error {
		return &workflow.Error{
			Code: workflow.CodeEntityLocked, Message: fmt.Sprintf("%s cannot be deleted: ", l.Entity) + fmt.Sprintf(format, args...),
			Issues: []workflow.Issue{{Path: "id", Code: code, Message: fmt.Sprintf(format, args...)}},
		}
	}
	switch {
	case l.HeldBy != nil:
		return refuse("locked", "execution %s holds it", *l.HeldBy)
	case l.ReservedBy != nil:
		return refuse("reserved", "execution %s waits for it", *l.ReservedBy)
	case len(l.Waiting) > 0:
		return refuse("reserved", "execution %s waits for it", l.Waiting[0].Execution)
	}
	return nil
}
