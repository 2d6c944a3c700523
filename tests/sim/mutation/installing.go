package mutation

// installing are the mistakes in what a deployment consists of.
var installing = []Mutation{
	{Name: "functions of another version than the construct's are deployed", Test: "infra:TestEngineProps_FunctionsMatchModule", Edits: []Edit{{"infra/version.go", "if own != \"\" && built != own {", "if false && built != own {"}}},
	{Name: "the functions are built with the flags of the caller", Test: "cmd/lockstep:TestFunctions_AreBuiltForArchitecture", Edits: []Edit{{"cmd/lockstep/functions.go", "\"GOFLAGS=\", \"GOWORK=off\"", "\"GOWORK=off\""}}},
	{Name: "functions of two versions are shown as one", Test: "cmd/lockstep:TestFunctions_FailureLeavesNoVersion", Edits: []Edit{{"cmd/lockstep/functions.go", "if err := os.Remove(versionFile); err != nil", "if _, err := os.Stat(versionFile); err != nil"}}},
	{Name: "the functions are built from any source", Test: "cmd/lockstep:TestFindSource_ChecksWhereCommandCameFrom", Edits: []Edit{{"cmd/lockstep/functions.go", "case found.Sum != m.Sum:", "case found.Dir == \"\":"}}},
}
