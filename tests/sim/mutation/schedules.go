package mutation

const (
	catalogSchedules = "shared/catalog/schedules.go"
	fireByHand       = "shared/engine/scheduler/fire.go"
)

// schedules are mistakes about schedules that people pause, fire and remove.
var schedules = []Mutation{
	{Name: "archiving begins the schedule of an older version", Test: "shared/engine/scheduler:TestArchive_PausesTheScheduleOfAnOlderVersion", Edits: []Edit{{catalogSchedules, "asks && paused == nil && olderThan(is, was)", "asks && paused != nil && olderThan(is, was)"}}},
	{Name: "a version that is restored leaves the schedule paused", Test: "shared/engine/scheduler:TestArchive_PausesTheScheduleOfAnOlderVersion", Edits: []Edit{{catalogSchedules, "paused.By == \"\" && (olderThan(", "paused.By == \"-\" && (olderThan("}}},
	{Name: "publishing resumes a paused schedule", Test: "shared/engine/scheduler:TestPause_StopsFireTimes", Edits: []Edit{{catalogSchedules, "s.Cron == nil || s.Paused != nil && s.FiringAt.IsZero() {", "s.Cron == nil {"}}},
	{Name: "a sweep goes on with a schedule that was paused meanwhile", Test: "shared/engine/scheduler:TestPause_DuringASweep", Edits: []Edit{{"shared/engine/scheduler/cron_scheduler.go", "if err != nil || s.Paused != nil || s.Removed != nil {", "if err != nil {"}}},
	{Name: "a pause forgets what a sweep has begun", Test: "shared/engine/scheduler:TestPause_DuringASweep", Edits: []Edit{{catalogSchedules, "if s.FiringAt.IsZero() { // else the scheduler ends that first", "if true {"}}},
	{Name: "a removed schedule comes back with its version", Test: "shared/engine/scheduler:TestRemove_IsForOneVersion", Edits: []Edit{{catalogSchedules, "asks && s.Removed != nil && (s.Removed.Version == \"\" || olderThan(s.Removed.Version, d.Version))", "asks && s.Removed != nil"}}},
	{Name: "a schedule is fired while its execution works", Test: "shared/engine/scheduler:TestFire_StartsOneExecution", Edits: []Edit{{fireByHand, "\t\tif busy {", "\t\tif busy && len(key) > 10 {"}}},
	{Name: "a key fires a schedule again", Test: "shared/engine/scheduler:TestFire_StartsOneExecution", Edits: []Edit{{fireByHand, "r.Key == keyDigest", "r.Key == keyDigest && s.LastExecution == r.Execution"}}},
	{Name: "a fire by hand takes the place of a fire time", Test: "shared/engine/scheduler:TestFire_AfterWhatIsDue", Edits: []Edit{{fireByHand, "if due != nil {", "if due != nil && due.recorded {"}}},
	{Name: "a sweep does not see what somebody has fired", Test: "shared/engine/scheduler:TestFire_SurvivesAFaultAtEveryCall", Edits: []Edit{{fireByHand, "\t\ts.NextAt = at // so that a sweep sees it\n", ""}}},
}
