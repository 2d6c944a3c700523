package codec

// The dictionaries contain the most frequent parts of stored documents, the most frequent last.
// They are part of the stored format: never change one that has been released, but add a new one
// under the next number.

const executionDictionary1 = `"conflicts":1,"blockedBy":{"entity":{"type":"device","id":"` + `"},"execution":"","epoch":1,"reservation":true,"since":"2026-` +
	`"cancellation":{"source":"user","reason":"","by":"","at":"2026-","rollback":"auto"},"rolledBack":true,` +
	`"cause":"VALIDATION","LOCK_TIMEOUT","JOB_TIMEOUT","WORKER_CRASH","TIMEOUT","ASSERTION","INTERNAL","CANCELLED","cause":"STEP_FAILED","reason":"","error":{"code":"HTTP_5xx","message":"` + `","step":"","entity":"device/","retryable":true,"details":{` +
	`"counts":{"ok":1,"failed":1,"unknown":1,"notExecuted":1,"failure":{"code":"` + `"unknownEntity":"` + `"selector":{"type":"device","ids":["` + `"],"groups":["` + `"],"query":"` + `"key":"","chunks":1,` +
	`"kind":"ROLLBACK","wave":1,"undoes":1,` +
	`[0,"execution.rejected","ERROR","="],[0,"execution.failed","ERROR","="],[0,"rollback.started","ROLLBACK","="],[0,"rollback.completed","FAILED_SAFE","="],[0,"execution.failed_safe","FAILED_SAFE","=","","","",{"trigger":"rollback.completed"}],[0,"execution.failed_unsafe","FAILED_UNSAFE","=","","","",{"trigger":"execution.classified_unsafe"}],[0,"execution.classified_safe","FAILED_SAFE_ACK"` +
	`[0,"lock.deferred","SCHEDULED","=","` + `[0,"cancel.requested","CANCELLING","=","","","` + `[0,"execution.cancelled","CANCELLED","="],[0,"execution.settled","CANCELLED_ACK","="],[0,"workflow.failed","FAILED","="],[0,"step.exited","FAILED","=","","","",{"failed":1,"ok":1,"skipped":1}],` +
	`{"x":{"schema":0,"engine":"0.1.0","tenant":"","id":"","state":"","version":0,"epoch":0,"try":1,"commit":"","workflow":{"package":"","name":"","version":"1.0.0"},"blocks":{"` + `":"1.0.0"},"input":{"parameters":{"version":"` + `"},"selector":{"type":"device","ids":["` + `"]}},"createdAt":"2026-11-21T05:` + `Z","startedAt":"2026-11-21T` + `Z","endedAt":"2026-11-21T` + `Z","createdBy":"local","labels":{"` +
	`"},"scope":{"counts":{"device":1},"inline":[{"key":{"type":"device","id":"` + `"},"token":1,"attributes":{"` + `"}}],"heldEpoch":1},"lockSince":"2026-11-21T` + `Z","stepRunSeq":1,"stepRuns":[{"seq":1,"step":0,"label":"` + `","ordinal":1,"kind":"EXECUTE","status":"RUNNING","enteredAt":"2026-11-21T` +
	`","ordinal":1,"kind":"EXECUTE","status":"COMPLETED","enteredAt":"2026-11-21T` + `Z","endedAt":"2026-11-21T` + `Z","block":"` + `:1.0.0","pool":"default","pure":true,"idempotent":true,"reversible":true,"undoHarmless":true,"jobs":1,"skipped":1,"packSize":1,"window":1,"maxAttempts":1,"dispatchedAt":"2026-11-21T` + `Z","closing":true,"counts":{"ok":1}}` +
	`],"sequence":15,"pagedThrough":1,"cost":{"w":{"executions":1.5,"jobs":2,"locks":1,"registry":1},"r":{"executions":2.5,"jobs":1,"locks":1,"registry":1.5},"d":15,"q":2,"f":2}},"e":[1,17` +
	`,[0,"execution.created","NEW","","","","local",{"workflow":"` + `:1.0.0"}],[0,"execution.validated","VALID","="],[0,"execution.ready","READY","="],[0,"discovery.started","RESOURCE_DISCOVERY","="],[0,"discovery.completed","RESOURCES_DISCOVERED","="],[0,"execution.scheduled","SCHEDULED","="],[0,"lock.requested","LOCKING","="],[0,"lock.granted","LOCKED","="],[0,"execution.started","RUNNING","="],[0,"workflow.initialized","RUNNING","PENDING"],[0,"step.entered","RUNNING","PENDING","` + `","","",{"jobs":1}],[0,"step.exited","COMPLETED","=","` + `","","",{"ok":1}],[0,"workflow.completed","COMPLETED","="],[0,"execution.completed","COMPLETED","="],[0,"execution.acknowledged","COMPLETED_ACK","="]]}`

const packDictionary1 = `{"code":"HTTP_TIMEOUT","message":"","step":"","entity":"device/","retryable":true,"details":{"status":503` + `{"entity":{"type":"device","id":"","set":{"remove":[` +
	`,"c":{"w":{"executions":1,"jobs":2,"locks":1},"r":{"jobs":1,"executions":1},"d":3,"q":1,"f":1}}` +
	`{"b":17,"j":[[0,"N"],[1,"S",0],[2,"X"],[3,"U",0,1],[4,"F",0,1,"ERROR",null,{"code":"HTTP_5xx","message":"` + `"retryable":true}],[1,"O",0,1,"OK",{"version":"` + `"}],[2,"O",0,1,"OK"],[3,"O",0,1,"OK",{"status":"` + `"}],[`
