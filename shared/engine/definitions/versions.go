package definitions

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxIndexAge is how long a version index is kept. It bounds how long a version is overlooked whose
// publication was never answered, or was answered by a release that raises no revision.
const maxIndexAge = 30 * time.Second

// keptIndex is a version index as it was read.
type keptIndex struct {
	index    workflow.VersionIndex
	revision int64 // of the tenant's versions, as read before the index
	readAt   time.Time
}

// versionReader is a registry that keeps version indexes. Each piece of work has its own.
//
// Whoever publishes raises the revision of the tenant's versions after the index was written, and is
// answered after that. So an index that was read after a revision is still right if a later read
// finds the same revision, as far as publications were answered before that read. One such read is
// enough for all names of a piece of work.
type versionReader struct {
	port.Registry
	cache *Cache
	now   func() time.Time

	once     sync.Once
	revision int64
	err      error
}

// Reader returns a registry for one piece of work, which keeps version indexes in the cache.
func (c *Cache) Reader(r port.Registry, now func() time.Time) port.Registry {
	return &versionReader{Registry: r, cache: c, now: now}
}

// ForgetVersions forgets all version indexes, as if the process had just begun.
func (c *Cache) ForgetVersions() {
	c.indexes.clear()
	c.revisions.clear()
}

// VersionIndex returns the index of one name's versions: as it was kept, or as it is.
func (v *versionReader) VersionIndex(ctx context.Context, tenant string, kind workflow.VersionKind, fullName string) (workflow.VersionIndex, error) {
	key := tenant + "#" + string(kind) + " " + fullName
	before, known := v.cache.revisions.get(tenant)
	kept, ok := v.cache.indexes.get(key)
	fits := ok && known && kept.revision == before && v.now().Sub(kept.readAt) < maxIndexAge
	if fits || !known {
		revision, err := v.currentRevision(ctx, tenant)
		if err == nil && fits && revision == kept.revision {
			return kept.index, nil
		}
		before, known = revision, err == nil
	}
	readAt := v.now()
	index, err := v.Registry.VersionIndex(ctx, tenant, kind, fullName)
	if err == nil && known && index.Revision > 0 {
		v.cache.indexes.put(key, keptIndex{index, before, readAt})
	}
	return index, err
}

// currentRevision reads the revision of the tenant's versions, once for each piece of work.
func (v *versionReader) currentRevision(ctx context.Context, tenant string) (int64, error) {
	v.once.Do(func() {
		if v.revision, v.err = v.Registry.VersionsRevision(ctx, tenant); v.err == nil {
			v.cache.revisions.put(tenant, v.revision)
		}
	})
	return v.revision, v.err
}
