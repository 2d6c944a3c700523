package catalog

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// VersionRegistry is what versions are looked up in. Its methods are part of the engine's ports and
// documented there.
type VersionRegistry interface {
	DefinitionVersions(ctx context.Context, tenant, fullName string, page workflow.Page) (workflow.List[workflow.PublishedDefinition], error)
	BlockVersions(ctx context.Context, tenant, fullName string) ([]workflow.Block, error)
	VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error)
	PutVersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string, index workflow.VersionIndex) (ok bool, err error)
	RaiseVersionsRevision(ctx context.Context, tenant string) error
}

// NewestVersion resolves a reference to the newest version that matches and is not archived. If all
// matching versions are archived, it returns the newest of them; if none matches, the zero value.
// It reads only the version index: a version that is stored but not in the index does not exist
// yet, because its publication has not been answered.
//
// If the name has no index, it was published by an earlier release. NewestVersion then reads all
// versions and stores the index.
func NewestVersion(ctx context.Context, r VersionRegistry, tenant string, kind workflow.VersionKind, ref workflow.Ref) (workflow.IndexedVersion, error) {
	name := ref.FullName()
	index, err := r.VersionIndex(ctx, tenant, kind, name)
	if err != nil {
		return workflow.IndexedVersion{}, err
	}
	newest, known := index.Newest(ref)
	if known && index.Revision > 0 {
		return newest, nil
	}
	all, err := allVersions(ctx, r, tenant, kind, name)
	if err != nil {
		return workflow.IndexedVersion{}, err
	}
	if index.Revision == 0 && len(all) > 0 {
		// If the index is not written, somebody else has written it, and what was read is just as
		// new.
		if _, err := r.PutVersionIndex(ctx, tenant, kind, name, workflow.NewVersionIndex(all)); err != nil {
			return workflow.IndexedVersion{}, err
		}
	}
	newest, _ = workflow.VersionIndex{Versions: workflow.NewestFirst(all)}.Newest(ref)
	return newest, nil
}

// updateVersionIndex writes the index of a name from all its versions, and then tells whoever keeps
// indexes that there is something new. It must be called after a version was stored, archived or
// restored. added is the version that was stored; "" if none was.
//
// It tells them even if somebody else has written the index: that one may not have come to telling.
// But it need not if the index has had the version for so long that nobody keeps an older one, as
// when a worker starts again with the blocks that it has always had.
func updateVersionIndex(ctx context.Context, r VersionRegistry, tenant string, kind workflow.VersionKind, fullName, added string, now time.Time) error {
	writtenBefore, err := writeVersionIndex(ctx, r, tenant, kind, fullName, added, now)
	if err != nil || !writtenBefore.IsZero() && now.Sub(writtenBefore) > maxIndexKept {
		return err
	}
	return r.RaiseVersionsRevision(ctx, tenant)
}

// maxIndexKept is longer than anybody keeps an index (maxIndexAge of package definitions), by any
// clock.
const maxIndexKept = 5 * time.Minute

// writeVersionIndex writes the index of a name from all its versions, unless somebody else does.
//
// It reads the index first and the versions second, and its write fails if the index was written in
// between. So of several concurrent calls, the last writer has read what all of them changed. That
// is why it writes even if the index is already right: another call may be about to write what it
// read before this change. Only the fact that a version exists can never change again, so it need
// not be written twice: then it returns when the index was written that has it.
func writeVersionIndex(ctx context.Context, r VersionRegistry, tenant string, kind workflow.VersionKind, fullName, added string, now time.Time) (before time.Time, err error) {
	first := int64(-1)
	for {
		index, err := r.VersionIndex(ctx, tenant, kind, fullName)
		if err != nil {
			return before, err
		}
		if first < 0 {
			first = index.Revision
		}
		// The writer of the second revision after the first began after this change was stored. So
		// there are at most three rounds, however many others write.
		if added != "" && index.Has(added) {
			return index.At, nil
		}
		if index.Revision >= first+2 {
			return before, nil
		}
		all, err := allVersions(ctx, r, tenant, kind, fullName)
		if err != nil {
			return before, err
		}
		next := workflow.NewVersionIndex(all)
		next.Revision, next.At = index.Revision, now
		if ok, err := r.PutVersionIndex(ctx, tenant, kind, fullName, next); err != nil || ok {
			return before, err
		}
	}
}

// allVersions reads every version of a name, but no drafts: whoever looks for a version does not find them.
func allVersions(ctx context.Context, r VersionRegistry, tenant string, kind workflow.VersionKind, fullName string) ([]workflow.IndexedVersion, error) {
	var all []workflow.IndexedVersion
	if kind == workflow.BlockVersions {
		blocks, err := r.BlockVersions(ctx, tenant, fullName)
		for i := range blocks {
			all = append(all, workflow.IndexedVersion{Version: blocks[i].Version})
		}
		return all, err
	}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := r.DefinitionVersions(ctx, tenant, fullName, page)
		if err != nil {
			return nil, err
		}
		for _, d := range list.Items {
			if !d.Draft {
				all = append(all, workflow.IndexedVersion{Version: d.Ref.Version, Archived: d.Archived})
			}
		}
		if page.Token = list.NextToken; page.Token == "" {
			return all, nil
		}
	}
}
