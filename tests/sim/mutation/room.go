package mutation

const largeScopes = "shared/engine/large_scopes.go"

// room are mistakes in what one process, queue or port can bear. A test detects each.
var room = []Mutation{
	{Name: "the entities of large executions are in memory side by side", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "if !w.boundsScope ||", "if !w.boundsScope || l.most > 0 ||"}}},
	{Name: "small executions wait behind large ones", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "want <= l.most/smallScopes {", "want <= 0 {"}}},
	{Name: "a wake-up that finds no room counts as a failure", Test: "shared/engine:TestAdvance_BoundsTheEntitiesInMemory", Edits: []Edit{{largeScopes, "if !errors.Is(err, errNoRoom) {", "if err != nil || !errors.Is(err, errNoRoom) {"}}},
}
