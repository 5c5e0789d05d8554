package workflows

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
)

// specCase is a spec and the message with which it is refused; an empty message means that it is accepted.
type specCase struct{ spec, message string }

func checkSpecs(t *testing.T, kind string, cases map[string]specCase) {
	t.Helper()
	ns := shared.Namespace(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := shared.Admin().Create(t.Context(), manifest(t, kind, ns, "x", tc.spec), client.DryRunAll)
			expectInvalid(t, "create", err, tc.message)
		})
	}
}

const (
	jobNames     = `every name of a job must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters`
	outputNames  = `every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters`
	inputNames   = `every name of an input must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 63 characters`
	envNames     = `every name of a variable must be a letter or '_', then letters, digits, '_', '.' or '-', up to 256 characters`
	stepNames    = `name must be letters, digits, '-' and '_', with a letter or digit at both ends`
	timeouts     = `timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`
	workflowUse  = `uses must be the name of a Workflow of the same namespace: lower-case letters, digits, '-' and '.'`
	actionUse    = `uses must be the name of an Action of the same namespace: lower-case letters, digits, '-' and '.'`
	artifactPath = ` in body should match '^([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+)(/([^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+))*$'`
	artifactFrom = ` in body should match '^(jobs\.[A-Za-z0-9_-]+\.artifacts\..+|.*\$\{\{.*)$'`
)

// sh is the simplest job, and the beginning of others.
const sh = `runs-on: sh, steps: [{name: s, run: "true"}]`

// job is a WorkflowRun of one job.
func job(body string) string { return `{jobs: {j: {` + body + `}}}` }

// step is a WorkflowRun of one job with one step.
func step(body string) string { return job(`runs-on: sh, steps: [{` + body + `}]`) }

func TestJobs(t *testing.T) {
	long := strings.Repeat("n", 63)
	checkSpecs(t, "WorkflowRun", map[string]specCase{
		"one job":                           {job(sh), ""},
		"a call":                            {job(`uses: deploy.v2`), ""},
		"a call with inputs and needs":      {`{jobs: {a: {` + sh + `}, b: {uses: w, needs: [a], with: {x: "${{ jobs.a.outputs.v }}"}}}}`, ""},
		"jobs that need others":             {`{jobs: {a: {` + sh + `}, b: {` + sh + `, needs: [a]}, c: {` + sh + `, needs: [a, b]}}}`, ""},
		"names with all that they may hold": {`{jobs: {a_B-9: {` + sh + `}, "1": {` + sh + `}, ` + long + `: {` + sh + `}}}`, ""},
		"an expression as runtime":          {job(`runs-on: "${{ inputs.runtime }}", steps: [{name: s, run: "true"}]`), ""},
		"env and outputs":                   {job(sh + `, env: {_A.b-1: "", B: "${{ 'x' }}"}, outputs: {o-1_x: {value: "${{ steps.s.outputs.k }}", description: d}}`), ""},
		"a time to live and a cancellation": {`{jobs: {j: {` + sh + `}}, ttlSecondsAfterFinished: 0, cancelRequested: true}`, ""},

		"no jobs":                   {`{}`, `spec.jobs: Required value`},
		"empty jobs":                {`{jobs: {}}`, `spec.jobs: Invalid value: 0: spec.jobs in body should have at least 1 properties`},
		"a negative time to live":   {`{jobs: {j: {` + sh + `}}, ttlSecondsAfterFinished: -1}`, `spec.ttlSecondsAfterFinished: Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater than or equal to 0`},
		"a name with a space":       {`{jobs: {"a b": {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},
		"a name with a dot":         {`{jobs: {a.b: {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},
		"a name with a dash at end": {`{jobs: {a-: {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},
		"an empty name":             {`{jobs: {"": {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},
		"a name of 64 characters":   {`{jobs: {n` + long + `: {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},

		"an unknown need":          {`{jobs: {a: {` + sh + `, needs: [b]}}}`, `spec.jobs: Invalid value: needs must name jobs of the same jobs map`},
		"a need named twice":       {`{jobs: {a: {` + sh + `}, b: {` + sh + `, needs: [a, a]}}}`, `spec.jobs[b].needs[1]: Duplicate value: "a"`},
		"an empty need":            {`{jobs: {a: {` + sh + `, needs: [""]}}}`, `[spec.jobs.a.needs[0]: Invalid value: "": spec.jobs.a.needs[0] in body should be at least 1 chars long, spec.jobs: Invalid value: needs must name jobs of the same jobs map]`},
		"a need that is no list":   {`{jobs: {a: {` + sh + `}, b: {` + sh + `, needs: a}}}`, `spec.jobs.b.needs: Invalid value: "string": spec.jobs.b.needs in body must be of type array: "string"`},
		"steps and a call":         {job(sh + `, uses: w`), `spec.jobs[j]: Invalid value: a job has either steps or uses, not both and not neither`},
		"neither steps nor a call": {job(`runs-on: sh`), `spec.jobs[j]: Invalid value: a job has either steps or uses, not both and not neither`},
		"empty steps":              {job(`runs-on: sh, steps: []`), `spec.jobs.j.steps: Invalid value: 0: spec.jobs.j.steps in body should have at least 1 items`},
		"no runtime":               {job(`steps: [{name: s, run: "true"}]`), `spec.jobs[j]: Invalid value: a job with steps needs runs-on, the name of a Runtime`},
		"an empty runtime":         {job(`runs-on: "", steps: [{name: s, run: "true"}]`), `spec.jobs.j.runs-on: Invalid value: "": spec.jobs.j.runs-on in body should be at least 1 chars long`},
		"a call with a runtime":    {job(`uses: w, runs-on: sh`), `spec.jobs[j]: Invalid value: a job with uses takes only with and needs: runs-on, env and outputs belong into the Workflow that it calls`},
		"a call with env":          {job(`uses: w, env: {A: b}`), `spec.jobs[j]: Invalid value: a job with uses takes only with and needs: runs-on, env and outputs belong into the Workflow that it calls`},
		"a call with outputs":      {job(`uses: w, outputs: {a: {value: b}}`), `spec.jobs[j]: Invalid value: a job with uses takes only with and needs: runs-on, env and outputs belong into the Workflow that it calls`},
		"inputs without a call":    {job(sh + `, with: {a: b}`), `spec.jobs[j]: Invalid value: with belongs to a job with uses: hand values to steps with env`},
		"inputs that are no text":  {job(`uses: w, with: {a: 1}`), `spec.jobs.j.with.a: Invalid value: "integer": spec.jobs.j.with.a in body must be of type string: "integer"`},
		"a remote workflow":        {job(`uses: org/repo/ci.yaml@v1`), `spec.jobs[j].uses: Invalid value: "org/repo/ci.yaml@v1": ` + workflowUse},
		"an empty call":            {job(`uses: ""`), `spec.jobs[j].uses: Invalid value: "": ` + workflowUse},

		"env with a digit first":     {job(sh + `, env: {1A: b}`), `spec.jobs[j].env: Invalid value: ` + envNames},
		"env with an equals sign":    {job(sh + `, env: {"A=b": c}`), `spec.jobs[j].env: Invalid value: ` + envNames},
		"env with a long name":       {job(sh + `, env: {A` + strings.Repeat("a", 256) + `: b}`), `spec.jobs[j].env: Invalid value: ` + envNames},
		"env with a reserved name":   {job(sh + `, env: {KRUNTIME_OUTPUTS: b}`), `spec.jobs[j].env: Invalid value: names that start with KRUNTIME_ are reserved`},
		"env as a list":              {job(sh + `, env: [{name: A, value: b}]`), `spec.jobs.j.env: Invalid value: "array": spec.jobs.j.env in body must be of type object: "array"`},
		"env over 32 KiB":            {job(sh + `, env: {A: ` + strings.Repeat("a", 32769) + `}`), `spec.jobs.j.env.A: Too long: may not be more than 32768 bytes`},
		"an output with a dot":       {job(sh + `, outputs: {a.b: {value: c}}`), `spec.jobs[j].outputs: Invalid value: ` + outputNames},
		"an output without value":    {job(sh + `, outputs: {a: {}}`), `spec.jobs.j.outputs.a.value: Required value`},
		"an output that is an input": {job(sh + `, outputs: {a: b}`), `spec.jobs.j.outputs.a: Invalid value: "string": spec.jobs.j.outputs.a in body must be of type object: "string"`},
	})
}

func TestSteps(t *testing.T) {
	ref := func(from, path string) string {
		return step(`name: s, run: "true", artifacts: [{from: "` + from + `", path: "` + path + `"}]`)
	}
	const good = "jobs.a.artifacts.dist.tgz"
	checkSpecs(t, "WorkflowRun", map[string]specCase{
		"a script with everything":   {step(`name: S-1_x, run: "${{ 'x' }}", env: {A: b}, timeout: 1h30m, artifacts: [{from: ` + good + `, path: in/dist.tgz}]`), ""},
		"a call":                     {step(`name: s, uses: setup.v1, with: {version: "3.13"}`), ""},
		"a script of 256 KiB":        {step(`name: s, run: ` + strings.Repeat("x", 262144)), ""},
		"an artifact by expression":  {ref("${{ inputs.from }}", "${{ inputs.to }}/x"), ""},
		"an artifact in hidden dirs": {ref(good, ".a/..b/...c"), ""},

		// The controller refuses this one: no cheap rule can.
		"a reserved artifact path": {ref(good, ".kruntimes/x"), ""},

		"a script and a call":           {step(`name: s, run: "true", uses: a`), `spec.jobs[j].steps[0]: Invalid value: a step has either run or uses, not both and not neither`},
		"neither script nor call":       {step(`name: s`), `spec.jobs[j].steps[0]: Invalid value: a step has either run or uses, not both and not neither`},
		"an empty script":               {step(`name: s, run: ""`), `spec.jobs.j.steps[0].run: Invalid value: "": spec.jobs.j.steps[0].run in body should be at least 1 chars long`},
		"a script over 256 KiB":         {step(`name: s, run: ` + strings.Repeat("x", 262145)), `spec.jobs.j.steps[0].run: Too long: may not be more than 262144 bytes`},
		"no name":                       {step(`run: "true"`), `spec.jobs.j.steps[0].name: Required value`},
		"an empty name":                 {step(`name: "", run: "true"`), `spec.jobs[j].steps[0].name: Invalid value: "": ` + stepNames},
		"a name with a space":           {step(`name: run tests, run: "true"`), `spec.jobs[j].steps[0].name: Invalid value: "run tests": ` + stepNames},
		"a name of 64 characters":       {step(`name: ` + strings.Repeat("n", 64) + `, run: "true"`), `spec.jobs.j.steps[0].name: Too long: may not be more than 63 bytes`},
		"two of a name":                 {job(`runs-on: sh, steps: [{name: s, run: a}, {name: s, run: b}]`), `spec.jobs[j].steps[1]: Duplicate value: {"name":"s"}`},
		"a call with env":               {step(`name: s, uses: a, env: {A: b}`), `spec.jobs[j].steps[0]: Invalid value: a step with uses takes only with: env, artifacts and timeout belong into the Action that it calls`},
		"a call with artifacts":         {step(`name: s, uses: a, artifacts: [{from: ` + good + `, path: p}]`), `spec.jobs[j].steps[0]: Invalid value: a step with uses takes only with: env, artifacts and timeout belong into the Action that it calls`},
		"a call with a timeout":         {step(`name: s, uses: a, timeout: 1s`), `spec.jobs[j].steps[0]: Invalid value: a step with uses takes only with: env, artifacts and timeout belong into the Action that it calls`},
		"inputs without a call":         {step(`name: s, run: "true", with: {a: b}`), `spec.jobs[j].steps[0]: Invalid value: with belongs to a step with uses: hand values to a script with env`},
		"a remote action":               {step(`name: s, uses: actions/checkout@v4`), `spec.jobs[j].steps[0].uses: Invalid value: "actions/checkout@v4": ` + actionUse},
		"env with a reserved name":      {step(`name: s, run: "true", env: {KRUNTIME_X: b}`), `spec.jobs[j].steps[0].env: Invalid value: names that start with KRUNTIME_ are reserved`},
		"env with a bad name":           {step(`name: s, run: "true", env: {"A B": b}`), `spec.jobs[j].steps[0].env: Invalid value: ` + envNames},
		"a timeout without unit":        {step(`name: s, run: "true", timeout: "90"`), `spec.jobs[j].steps[0].timeout: Invalid value: "90": ` + timeouts},
		"a timeout in days":             {step(`name: s, run: "true", timeout: 1d`), `spec.jobs[j].steps[0].timeout: Invalid value: "1d": ` + timeouts},
		"a timeout of nothing":          {step(`name: s, run: "true", timeout: 0s`), `spec.jobs[j].steps[0].timeout: Invalid value: "0s": ` + timeouts},
		"a negative timeout":            {step(`name: s, run: "true", timeout: -1s`), `spec.jobs[j].steps[0].timeout: Invalid value: "-1s": ` + timeouts},
		"an endless timeout":            {step(`name: s, run: "true", timeout: 9999999999999h`), `spec.jobs[j].steps[0].timeout: Invalid value: "9999999999999h": ` + timeouts},
		"a timeout of more than a year": {step(`name: s, run: "true", timeout: 8760h1ns`), `spec.jobs[j].steps[0].timeout: Invalid value: "8760h1ns": ` + timeouts},
		"a timeout of a year":           {step(`name: s, run: "true", timeout: 8760h`), ""},
		"a timeout that is no text":     {step(`name: s, run: "true", timeout: 90`), `spec.jobs.j.steps[0].timeout: Invalid value: "integer": spec.jobs.j.steps[0].timeout in body must be of type string: "integer"`},
		"an artifact of no job":         {ref("artifacts.x", "p"), `spec.jobs.j.steps[0].artifacts[0].from: Invalid value: "artifacts.x": spec.jobs.j.steps[0].artifacts[0].from` + artifactFrom},
		"an artifact without name":      {ref("jobs.a.artifacts.", "p"), `spec.jobs.j.steps[0].artifacts[0].from: Invalid value: "jobs.a.artifacts.": spec.jobs.j.steps[0].artifacts[0].from` + artifactFrom},
		"an artifact without path":      {step(`name: s, run: "true", artifacts: [{from: ` + good + `}]`), `spec.jobs.j.steps[0].artifacts[0].path: Required value`},
		"an artifact without source":    {step(`name: s, run: "true", artifacts: [{path: p}]`), `spec.jobs.j.steps[0].artifacts[0].from: Required value`},
		"an artifact path that climbs":  {ref(good, "a/../b"), `spec.jobs.j.steps[0].artifacts[0].path: Invalid value: "a/../b": spec.jobs.j.steps[0].artifacts[0].path` + artifactPath},
		"an absolute artifact path":     {ref(good, "/etc/passwd"), `spec.jobs.j.steps[0].artifacts[0].path: Invalid value: "/etc/passwd": spec.jobs.j.steps[0].artifacts[0].path` + artifactPath},
		"an artifact path with a dot":   {ref(good, "./a"), `spec.jobs.j.steps[0].artifacts[0].path: Invalid value: "./a": spec.jobs.j.steps[0].artifacts[0].path` + artifactPath},
		"an artifact path that ends":    {ref(good, "a/"), `spec.jobs.j.steps[0].artifacts[0].path: Invalid value: "a/": spec.jobs.j.steps[0].artifacts[0].path` + artifactPath},
		"two artifacts in a path":       {step(`name: s, run: "true", artifacts: [{from: ` + good + `, path: p}, {from: jobs.b.artifacts.c, path: p}]`), `spec.jobs[j].steps[0].artifacts[1]: Duplicate value: {"path":"p"}`},
	})
}

func TestWorkflowSpec(t *testing.T) {
	with := func(body string) string { return `{jobs: {j: {` + sh + `}}, ` + body + `}` }
	checkSpecs(t, "Workflow", map[string]specCase{
		"jobs only":                        {job(sh), ""},
		"inputs and outputs":               {with(`inputs: {a-1_B: {}, b: {type: string, required: true, description: d}, c: {default: ""}, d: {required: false, default: x}}, outputs: {o: {value: "${{ jobs.j.outputs.k }}"}}`), ""},
		"an output name of 47 characters":  {with(`outputs: {` + strings.Repeat("n", 47) + `: {value: x}}`), ""},
		"no jobs":                          {`{}`, `spec.jobs: Required value`},
		"empty jobs":                       {`{jobs: {}}`, `spec.jobs: Invalid value: 0: spec.jobs in body should have at least 1 properties`},
		"a job with a bad name":            {`{jobs: {a.b: {` + sh + `}}}`, `spec.jobs: Invalid value: ` + jobNames},
		"an unknown need":                  {job(sh + `, needs: [a]`), `spec.jobs: Invalid value: needs must name jobs of the same jobs map`},
		"steps and a call":                 {job(sh + `, uses: w`), `spec.jobs[j]: Invalid value: a job has either steps or uses, not both and not neither`},
		"an output name of 48 characters":  {with(`outputs: {` + strings.Repeat("n", 48) + `: {value: x}}`), `spec.outputs: Invalid value: every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 47 characters`},
		"an output name that ends in dash": {with(`outputs: {a-: {value: x}}`), `spec.outputs: Invalid value: every name of an output must be letters, digits, '-' and '_', with a letter or digit at both ends, up to 47 characters`},
		"an input of another type":         {with(`inputs: {a: {type: number}}`), `spec.inputs.a.type: Unsupported value: "number": supported values: "string"`},
		"an input with a bad name":         {with(`inputs: {a.b: {}}`), `spec.inputs: Invalid value: ` + inputNames},
		"a required input with a default":  {with(`inputs: {a: {required: true, default: ""}}`), `spec.inputs[a]: Invalid value: an input is either required or has a default: remove one of them`},
		"a default that is no text":        {with(`inputs: {a: {default: 3.12}}`), `spec.inputs.a.default: Invalid value: "number": spec.inputs.a.default in body must be of type string: "number"`},
		"an input that is text":            {with(`inputs: {a: b}`), `spec.inputs.a: Invalid value: "string": spec.inputs.a in body must be of type object: "string"`},
		"a long description":               {with(`inputs: {a: {description: ` + strings.Repeat("d", 1025) + `}}`), `spec.inputs.a.description: Too long: may not be more than 1024 bytes`},
	})
}

func TestActionSpec(t *testing.T) {
	with := func(body string) string { return `{steps: [{name: s, run: "true"}], ` + body + `}` }
	checkSpecs(t, "Action", map[string]specCase{
		"steps only":                      {`{steps: [{name: s, run: "true"}, {name: t, run: "true", env: {A: "${{ inputs.a }}"}, timeout: 1s}]}`, ""},
		"inputs and outputs":              {with(`inputs: {a: {default: b}}, outputs: {` + strings.Repeat("n", 63) + `: {value: "${{ steps.s.outputs.k }}"}}`), ""},
		"no steps":                        {`{}`, `spec.steps: Required value`},
		"empty steps":                     {`{steps: []}`, `spec.steps: Invalid value: 0: spec.steps in body should have at least 1 items`},
		"a call of another Action":        {`{steps: [{name: s, uses: a}]}`, `spec.steps[0]: Invalid value: the steps of an Action run scripts: an Action cannot call another Action`},
		"a step without script":           {`{steps: [{name: s}]}`, `spec.steps[0]: Invalid value: a step has either run or uses, not both and not neither`},
		"two steps of a name":             {`{steps: [{name: s, run: a}, {name: s, run: b}]}`, `spec.steps[1]: Duplicate value: {"name":"s"}`},
		"an output with a bad name":       {with(`outputs: {-a: {value: b}}`), `spec.outputs: Invalid value: ` + outputNames},
		"an input with a bad name":        {with(`inputs: {_a: {}}`), `spec.inputs: Invalid value: ` + inputNames},
		"a required input with a default": {with(`inputs: {a: {required: true, default: b}}`), `spec.inputs[a]: Invalid value: an input is either required or has a default: remove one of them`},
	})
}

// TestFieldsOfOtherKindsAreRefused sends strictly, as kubectl does.
func TestFieldsOfOtherKindsAreRefused(t *testing.T) {
	ns := shared.Namespace(t)
	tests := map[string]struct{ kind, spec, field string }{
		"a WorkflowRun that calls":  {"WorkflowRun", `{jobs: {j: {` + sh + `}}, uses: w}`, "spec.uses"},
		"a WorkflowRun with inputs": {"WorkflowRun", `{jobs: {j: {` + sh + `}}, with: {a: b}}`, "spec.with"},
		"a Workflow that cancels":   {"Workflow", `{jobs: {j: {` + sh + `}}, cancelRequested: true}`, "spec.cancelRequested"},
		"an Action with jobs":       {"Action", `{steps: [{name: s, run: a}], jobs: {}}`, "spec.jobs"},
		"a job with a workspace":    {"WorkflowRun", `{jobs: {j: {` + sh + `, workspace: {name: w}}}}`, "spec.jobs.j.workspace"},
		"a conditional step":        {"WorkflowRun", step(`name: s, run: a, if: always()`), "spec.jobs.j.steps[0].if"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := shared.Admin().Create(t.Context(), manifest(t, tc.kind, ns, "x", tc.spec), client.DryRunAll, client.FieldValidation("Strict"))
			expectError(t, "create", err, `strict decoding error: unknown field "`+tc.field+`"`)
		})
	}
}

func TestOnlyCancelAndTimeToLiveOfAWorkflowRunAreMutable(t *testing.T) {
	ns := shared.Namespace(t)
	run := manifest(t, "WorkflowRun", ns, "r", `{jobs: {j: {`+sh+`, env: {A: b}}, k: {uses: w, needs: [j]}}}`)
	shared.Create(t, run)
	const jobs = "spec.jobs: Invalid value: jobs are immutable: create a new WorkflowRun"
	const cancel = "spec: Invalid value: cancelRequested cannot be taken back: create a new WorkflowRun"
	steps := []struct{ patch, message string }{
		{`{"jobs":{"j":{"runs-on":"other"}}}`, jobs},
		{`{"jobs":{"j":{"steps":[{"name":"s","run":"false"}]}}}`, jobs},
		{`{"jobs":{"j":{"env":null}}}`, jobs},
		{`{"jobs":{"k":{"needs":null}}}`, jobs},
		{`{"jobs":{"k":{"with":{"a":"b"}}}}`, jobs},
		{`{"jobs":{"k":null}}`, jobs},
		{`{"jobs":{"l":{"uses":"w"}}}`, jobs},
		{`{"jobs":{"j":{"runs-on":"sh"}},"ttlSecondsAfterFinished":60}`, ""},
		{`{"ttlSecondsAfterFinished":null}`, ""},
		{`{"ttlSecondsAfterFinished":0,"cancelRequested":false}`, ""},
		{`{"cancelRequested":true}`, ""},
		{`{"cancelRequested":false}`, cancel},
		{`{"cancelRequested":null}`, cancel},
		{`{"ttlSecondsAfterFinished":1}`, ""},
	}
	for _, step := range steps {
		err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"spec":`+step.patch+`}`))
		expectInvalid(t, step.patch, err, step.message)
	}
}

func TestWorkflowsAndActionsAreMutable(t *testing.T) {
	ns := shared.Namespace(t)
	for kind, patch := range map[string]string{
		"Workflow": `{"spec":{"jobs":{"j":null,"k":{"uses":"w"}}}}`,
		"Action":   `{"spec":{"steps":[{"name":"other","run":"false"}]}}`,
	} {
		spec := job(sh)
		if kind == "Action" {
			spec = `{steps: [{name: s, run: "true"}]}`
		}
		u := manifest(t, kind, ns, "d", spec)
		shared.Create(t, u)
		expectError(t, kind, shared.Admin().Patch(t.Context(), u, mergePatch(patch)), "")
	}
}

// TestAWorkflowRunShowsAPhaseWithoutAWrite also looks at the other defaults.
func TestAWorkflowRunShowsAPhaseWithoutAWrite(t *testing.T) {
	ns := shared.Namespace(t)
	created := manifest(t, "WorkflowRun", ns, "r", job(sh))
	created.Object["status"] = map[string]any{"phase": "Succeeded", "snapshotName": "x"}
	shared.Create(t, created)
	run := &workflowsv1alpha1.WorkflowRun{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(created), run); err != nil {
		t.Fatal(err)
	}
	if run.ResourceVersion != created.GetResourceVersion() || run.Status.Phase != workflowsv1alpha1.WorkflowPending || run.Status.SnapshotName != "" {
		t.Errorf("got %+v in version %s, want a pending WorkflowRun in version %s", run.Status, run.ResourceVersion, created.GetResourceVersion())
	}
	if run.Spec.CancelRequested || run.Spec.TTLSecondsAfterFinished != nil {
		t.Errorf("got spec %+v, want neither a cancellation nor a time to live", run.Spec)
	}
	byPhase := &workflowsv1alpha1.WorkflowRunList{}
	if err := shared.Admin().List(t.Context(), byPhase, client.InNamespace(ns), client.MatchingFields{workflowsv1alpha1.FieldPhase: "Pending"}); err != nil {
		t.Fatal(err)
	}
	if len(byPhase.Items) != 1 {
		t.Errorf("%d WorkflowRuns selected by %s=Pending, want 1", len(byPhase.Items), workflowsv1alpha1.FieldPhase)
	}
	action := manifest(t, "Action", ns, "a", `{steps: [{name: s, run: a}], inputs: {i: {}}}`)
	shared.Create(t, action)
	if kind, _, _ := unstructured.NestedString(action.Object, "spec", "inputs", "i", "type"); kind != "string" {
		t.Errorf("an input has type %q by default, want string", kind)
	}
}
