package mutation

// reads are mistakes about what is read weakly, or before it is locked.
var reads = []Mutation{
	{Name: "whatever a weak read of an owner says is believed", Test: "shared/engine/locking:TestLocker_BelievesWeakReadsOfPassedOwnersOnly", Edits: []Edit{{acquire, `h.State == "" || h.Epoch < item.OwnerEpoch || h.HoldsEntity`, "h.HoldsEntity"}}},
	{Name: "a deletion does not outdate the lock", Test: "shared/engine:TestDeleteEntity_AtAnyTimeOfAnExecution", Edits: []Edit{{"shared/catalog/change_entity.go", "ports.LockItems.Outdate(ctx, caller.Tenant, key); err != nil", "ctx.Err(); err != nil"}}},
	{Name: "entities that were read while a lock was lost count as read under it", Test: "shared/engine/locking:TestLocker_CallsBesideTheTakesOfAllLocks", Edits: []Edit{{acquire, "beside != nil && len(lost) == 0", "beside != nil"}}},
	{Name: "what a weak read shows of a pack is believed", Test: "shared/engine/dispatch:TestDispatcher_ReadsAgainWhatAWeakReadDoesNotShowAsOver", Edits: []Edit{{report, "findLaneState(r, 0, packsByLane(a.Packs)[0]).done {", "len(a.Packs) > 0 {"}}},
	{Name: "an index of versions is kept with a revision that was read after it", Test: "shared/engine/definitions:TestReader_FindsWhatWasPublished", Edits: []Edit{{"shared/engine/definitions/versions.go", "if err == nil && known && index.Revision > 0 {", "if before, _ = v.Registry.VersionsRevision(ctx, tenant); err == nil && index.Revision > 0 {"}}},
	{Name: "a publication does not raise the revision of versions", Test: "shared/engine/definitions:TestReader_FindsWhatWasPublished", Edits: []Edit{{"shared/catalog/versions.go", "return r.RaiseVersionsRevision(ctx, tenant)", "return nil"}}},
}
