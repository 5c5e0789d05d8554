package core

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"
)

// manifest makes an object from the JSON of its spec, as a person might write it: with fields that no Go type has.
func manifest(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	var body any
	if err := json.Unmarshal([]byte(spec), &body); err != nil {
		t.Fatalf("decoding %s: %v", spec, err)
	}
	u.Object["spec"] = body
	u.SetAPIVersion(corev1alpha1.GroupVersion.String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// specCase is a spec and the message with which it is refused; an empty message means that it is accepted.
type specCase struct{ spec, message string }

func checkSpecs(t *testing.T, kind string, cases map[string]specCase) {
	ns := shared.Namespace(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := shared.Admin().Create(t.Context(), manifest(t, kind, ns, "x", tc.spec), client.DryRunAll)
			expectError(t, "create", err, tc.message)
		})
	}
}

const commandRun = `"runtime":"sh","mode":{"task":{"args":["true"]}}`

func TestRunSpec(t *testing.T) {
	ref := func(path string) string {
		return `{"name":"a","driver":"Filesystem","type":"File","location":{"filesystem":{"path":"` + path + `"}}}`
	}
	good := ref("runs/0b6c1f0e-5a43-4a0e-8f0e-3a1d1b1c1d1e/artifacts/a")
	input := func(artifact, path string) string {
		return `{` + commandRun + `,"artifactInputs":[{"artifact":` + artifact + `,"path":"` + path + `"}]}`
	}
	affinity := func(term string) string {
		return `{` + commandRun + `,"affinity":{"runAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[` + term + `]}}}`
	}
	selector := func(expression string) string {
		return `{"labelSelector":{"matchExpressions":[` + expression + `]},"topologyKey":"kruntimes.io/runtime-pod"}`
	}
	checkSpecs(t, "Run", map[string]specCase{
		"affinity by all operators": {affinity(selector(`{"key":"example.com/a_B.c","operator":"In","values":["","x-1"]},{"key":"a","operator":"NotIn","values":["b"]},` +
			`{"key":"a","operator":"Exists"},{"key":"b","operator":"DoesNotExist","values":[]}`)), ""},
		"an inline script":           {`{"runtime":"sh","source":{"inline":"true"}}`, ""},
		"an inline script with args": {`{"runtime":"sh","source":{"inline":"echo $1"},"mode":{"task":{"args":["a"]}}}`, ""},
		"a command":                  {`{` + commandRun + `}`, ""},
		"a git source":               {`{"runtime":"sh","source":{"git":{"url":"https://example.com/r.git","revision":"main"}},"mode":{"task":{"entrypoint":"ci/build.sh"}}}`, ""},
		"a git source over ssh":      {`{"runtime":"sh","source":{"git":{"url":"ssh://git@example.com/r.git"}},"mode":{"task":{"entrypoint":"a"}}}`, ""},
		"a script of 256 KiB":        {`{"runtime":"sh","source":{"inline":"` + strings.Repeat("x", 262144) + `"}}`, ""},
		"all durations and a policy": {`{` + commandRun + `,"timeout":"1h30m","retryPolicy":{"maxAttempts":3,"backoff":"0s","maxBackoff":"5m","retryOn":["ScriptFailed"]}}`, ""},
		"a workspace by name":        {`{` + commandRun + `,"workspace":{"name":"w"}}`, ""},
		"a workspace in full":        {`{` + commandRun + `,"workspace":{"name":"w","kind":"PersistentWorkspace","apiGroup":"workspaces.kruntimes.io/v1alpha1"}}`, ""},
		"an artifact input":          {input(good, "in/a..b"), ""},
		"affinity":                   {affinity(`{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"kruntimes.io/runtime-pod"}`), ""},

		"no runtime":                    {`{"source":{"inline":"true"}}`, `spec.runtime: Required value`},
		"an empty runtime":              {`{"runtime":"","source":{"inline":"true"}}`, `spec.runtime`},
		"a runtime that climbs":         {`{"runtime":"../x","source":{"inline":"true"}}`, `spec.runtime: Invalid value: "../x": runtime must be the name of a Runtime: lower-case letters, digits, '-' and '.', with a letter or digit at both ends`},
		"a runtime with an umlaut":      {`{"runtime":"ü","source":{"inline":"true"}}`, `spec.runtime: Invalid value: "ü": runtime must be the name of a Runtime`},
		"a runtime of two names":        {`{"runtime":"a..b","source":{"inline":"true"}}`, `spec.runtime: Invalid value: "a..b": runtime must be the name of a Runtime`},
		"a runtime with dots":           {`{"runtime":"py-3.12","source":{"inline":"true"}}`, ""},
		"an empty first word":           {`{"runtime":"sh","mode":{"task":{"args":["","a"]}}}`, `spec.mode.task.args: Invalid value: the first of args is the command and must not be empty`},
		"an empty word for a script":    {`{"runtime":"sh","source":{"inline":"true"},"mode":{"task":{"args":[""]}}}`, ""},
		"a word with NUL":               {`{"runtime":"sh","mode":{"task":{"args":["a","b\u0000c"]}}}`, `spec.mode.task.args[1]: Invalid value: "b\x00c": args must not hold NUL characters: no process can be given one`},
		"an entrypoint with NUL":        {`{"runtime":"sh","source":{"git":{"url":"https://e.com/r"}},"mode":{"task":{"entrypoint":"a\u0000"}}}`, `entrypoint must not hold NUL characters`},
		"nothing to run":                {`{"runtime":"sh"}`, `spec.source: Invalid value: nothing to run: set source.inline, source.git or mode.task.args`},
		"an empty command":              {`{"runtime":"sh","mode":{"task":{"args":[]}}}`, `nothing to run`},
		"an empty script":               {`{"runtime":"sh","source":{"inline":""}}`, `spec.source.inline`},
		"a script over 256 KiB":         {`{"runtime":"sh","source":{"inline":"` + strings.Repeat("x", 262145) + `"}}`, `spec.source.inline: Too long: may not be more than 262144`},
		"two sources":                   {`{"runtime":"sh","source":{"inline":"a","git":{"url":"https://example.com/r"}},"mode":{"task":{"entrypoint":"a"}}}`, `spec.source: Invalid value: set exactly one of inline and git`},
		"an empty source":               {`{"runtime":"sh","source":{}}`, `spec.source: Invalid value: set exactly one of inline and git`},
		"git over http":                 {`{"runtime":"sh","source":{"git":{"url":"http://example.com/r"}},"mode":{"task":{"entrypoint":"a"}}}`, `url must start with https:// or ssh://`},
		"git from a file":               {`{"runtime":"sh","source":{"git":{"url":"file:///etc"}},"mode":{"task":{"entrypoint":"a"}}}`, `url must start with https:// or ssh://`},
		"git with an option as url":     {`{"runtime":"sh","source":{"git":{"url":"--upload-pack=x"}},"mode":{"task":{"entrypoint":"a"}}}`, `url must start with https:// or ssh://`},
		"git with an option as version": {`{"runtime":"sh","source":{"git":{"url":"https://e.com/r","revision":"--x"}},"mode":{"task":{"entrypoint":"a"}}}`, `revision must be a branch, tag or commit id`},
		"git without entrypoint":        {`{"runtime":"sh","source":{"git":{"url":"https://example.com/r"}}}`, `a git source needs mode.task.entrypoint, the file of the repository to run`},
		"inline with entrypoint":        {`{"runtime":"sh","source":{"inline":"a"},"mode":{"task":{"entrypoint":"a"}}}`, `mode.task.entrypoint needs source.git; an inline script is itself what is run`},
		"an absolute entrypoint":        {`{"runtime":"sh","source":{"git":{"url":"https://e.com/r"}},"mode":{"task":{"entrypoint":"/bin/sh"}}}`, `spec.mode.task.entrypoint: Invalid value: "/bin/sh": entrypoint must be a relative path without '..'`},
		"an entrypoint that climbs":     {`{"runtime":"sh","source":{"git":{"url":"https://e.com/r"}},"mode":{"task":{"entrypoint":"a/../../b"}}}`, `spec.mode.task.entrypoint: Invalid value: "a/../../b": entrypoint must be a relative path without '..'`},
		"function mode":                 {`{"runtime":"sh","source":{"inline":"a"},"mode":{"function":{}}}`, `spec.mode: Invalid value: function mode is not available in this version`},
		"function mode with fields":     {`{"runtime":"sh","source":{"inline":"a"},"mode":{"function":{"handler":"main"}}}`, `spec.mode: Invalid value: function mode is not available in this version`},
		"another kind of workspace":     {`{` + commandRun + `,"workspace":{"name":"w","kind":"PersistentVolumeClaim"}}`, `spec.workspace.kind: Unsupported value`},
		"another workspace group":       {`{` + commandRun + `,"workspace":{"name":"w","apiGroup":"v1"}}`, `spec.workspace.apiGroup: Unsupported value`},
		"a workspace without name":      {`{` + commandRun + `,"workspace":{}}`, `spec.workspace.name: Required value`},

		"env":                        {`{` + commandRun + `,"env":[{"name":"A_b.c-1","value":"$(X) ${{ y }}"},{"name":"B"}]}`, ""},
		"env twice":                  {`{` + commandRun + `,"env":[{"name":"A"},{"name":"A"}]}`, `spec.env[1]: Duplicate value`},
		"env with a digit first":     {`{` + commandRun + `,"env":[{"name":"1A"}]}`, `name must be a letter or _, then letters, digits, '_', '.' or '-'`},
		"env with an equals sign":    {`{` + commandRun + `,"env":[{"name":"A=B"}]}`, `name must be a letter or _, then letters, digits, '_', '.' or '-'`},
		"env with a reserved name":   {`{` + commandRun + `,"env":[{"name":"KRUNTIME_OUTPUTS","value":"x"}]}`, `spec.env[0].name: Invalid value: "KRUNTIME_OUTPUTS": names that start with KRUNTIME_ are reserved`},
		"env with NUL":               {`{` + commandRun + `,"env":[{"name":"A","value":"a\u0000b"}]}`, `spec.env[0].value: Invalid value: "a\x00b": value must not hold NUL characters: no environment can`},
		"env from a Secret":          {`{` + commandRun + `,"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}`, `spec.env[0]: Invalid value: valueFrom is not supported: mount the Secret in the Runtime's template instead`},
		"env from nothing in detail": {`{` + commandRun + `,"env":[{"name":"A","valueFrom":{}}]}`, `valueFrom is not supported`},

		"requests":                      {`{` + commandRun + `,"resources":{"requests":{"runs":2,"example.com/gpu":"1"}}}`, ""},
		"a negative request":            {`{` + commandRun + `,"resources":{"requests":{"runs":"-1"}}}`, `spec.resources.requests: Invalid value: requests must not be negative`},
		"a negative request, as number": {`{` + commandRun + `,"resources":{"requests":{"runs":-1}}}`, `spec.resources.requests: Invalid value: requests must not be negative`},
		"a request that is no number":   {`{` + commandRun + `,"resources":{"requests":{"runs":"lots"}}}`, `spec.resources.requests.runs`},
		"a request of no runs":          {`{` + commandRun + `,"resources":{"requests":{"runs":"0"}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1`},
		"a request of no runs, number":  {`{` + commandRun + `,"resources":{"requests":{"runs":0}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1`},
		"a request of half a run":       {`{` + commandRun + `,"resources":{"requests":{"runs":"0.5"}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1`},
		"a request of 500m runs":        {`{` + commandRun + `,"resources":{"requests":{"runs":"500m"}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1`},
		"fractions of other units":      {`{` + commandRun + `,"resources":{"requests":{"runs":"1","example.com/gpu":"500m","example.com/disk":0}}}`, ""},
		"1e30 runs":                     {`{` + commandRun + `,"resources":{"requests":{"runs":"1e30"}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1 and at most 1000000000`},
		"too many runs":                 {`{` + commandRun + `,"resources":{"requests":{"runs":1000000001}}}`, `spec.resources.requests: Invalid value: runs must be a whole number of at least 1 and at most 1000000000`},
		"a unit without a name":         {`{` + commandRun + `,"resources":{"requests":{"":"1"}}}`, `spec.resources.requests: Invalid value: requests must name units such as runs or example.com/gpu`},
		"a unit with two slashes":       {`{` + commandRun + `,"resources":{"requests":{"a/b/c":"1"}}}`, `spec.resources.requests: Invalid value: requests must name units such as runs or example.com/gpu`},

		"a timeout without unit":    {`{` + commandRun + `,"timeout":"90"}`, `timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"a timeout in days":         {`{` + commandRun + `,"timeout":"1d"}`, `timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"a negative timeout":        {`{` + commandRun + `,"timeout":"-1s"}`, `spec.timeout`},
		"a timeout of nothing":      {`{` + commandRun + `,"timeout":"0s"}`, `spec.timeout: Invalid value: "0s": timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"an endless timeout":        {`{` + commandRun + `,"timeout":"99999999999999999999h"}`, `spec.timeout: Invalid value: "99999999999999999999h": timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"a timeout too short":       {`{` + commandRun + `,"timeout":"1ns"}`, `spec.timeout: Invalid value: "1ns": timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"a timeout too long":        {`{` + commandRun + `,"timeout":"8761h"}`, `spec.timeout: Invalid value: "8761h": timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"a timeout beyond Go":       {`{` + commandRun + `,"timeout":"10000000h"}`, `spec.timeout: Invalid value: "10000000h": timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"many hours make too many":  {`{` + commandRun + `,"timeout":"99999h99999h99999h99999h99999h"}`, `timeout must be a duration of at least 1ms and at most 8760h, such as 90s or 1h30m`},
		"the longest timeout":       {`{` + commandRun + `,"timeout":"8759h59m59.999999999s"}`, ""},
		"the shortest timeout":      {`{` + commandRun + `,"timeout":"1000us"}`, ""},
		"a backoff beyond Go":       {`{` + commandRun + `,"retryPolicy":{"backoff":"10000000h"}}`, `spec.retryPolicy.backoff: Invalid value: "10000000h": backoff must be a duration of at least 0s and at most 8760h`},
		"a bound beyond Go":         {`{` + commandRun + `,"retryPolicy":{"maxBackoff":"10000000h"}}`, `spec.retryPolicy.maxBackoff: Invalid value: "10000000h": maxBackoff must be a duration of at least 0s and at most 8760h`},
		"a timeout that is no text": {`{` + commandRun + `,"timeout":90}`, `spec.timeout`},
		"no attempt":                {`{` + commandRun + `,"retryPolicy":{"maxAttempts":0}}`, `spec.retryPolicy.maxAttempts`},
		"a reason that is none":     {`{` + commandRun + `,"retryPolicy":{"maxAttempts":2,"retryOn":["Flaky"]}}`, `spec.retryPolicy.retryOn[0]: Unsupported value`},
		"a retry after a cancel":    {`{` + commandRun + `,"retryPolicy":{"maxAttempts":2,"retryOn":["Timeout","Cancelled"]}}`, `spec.retryPolicy.retryOn: Invalid value: a cancelled Run is never tried again: leave Cancelled out of retryOn`},
		"a negative backoff":        {`{` + commandRun + `,"retryPolicy":{"maxAttempts":2,"backoff":"-1s"}}`, `spec.retryPolicy.backoff`},
		"a negative time to live":   {`{` + commandRun + `,"ttlSecondsAfterFinished":-1}`, `spec.ttlSecondsAfterFinished`},

		"an input that climbs":                   {input(good, "a/../b"), `spec.artifactInputs[0].path: Invalid value: "a/../b": path must be relative, without '..', '.' or empty parts`},
		"an absolute input":                      {input(good, "/etc/passwd"), `spec.artifactInputs[0].path: Invalid value: "/etc/passwd": path must be relative`},
		"an input with an empty part":            {input(good, "a//b"), `spec.artifactInputs[0].path: Invalid value: "a//b": path must be relative`},
		"an input in the reserved directory":     {input(good, ".kruntimes/x"), `spec.artifactInputs[0].path: Invalid value: ".kruntimes/x": path must not lie below .kruntimes, which is reserved`},
		"an artifact outside of the store":       {input(ref("../secret"), "a"), `artifactInputs[0].artifact.location.filesystem.path`},
		"an artifact with the wrong coordinates": {input(strings.Replace(good, "Filesystem", "S3", 1), "a"), `artifactInputs[0].artifact.location: Invalid value: location must hold the coordinates of the driver, and no others`},
		"an input below a file": {`{` + commandRun + `,"artifactInputs":[{"artifact":` + good + `,"path":"a/b"},{"artifact":` + good + `,"path":"a"}]}`,
			`spec.artifactInputs: Invalid value: no path may lie below that of a file: choose another path for one of them`},
		"an input below a directory": {`{` + commandRun + `,"artifactInputs":[{"artifact":` + strings.Replace(good, `"File"`, `"Directory"`, 1) + `,"path":"a"},{"artifact":` + good + `,"path":"a/b"},{"artifact":` + good + `,"path":"ab"}]}`, ""},
		"an input twice":             {`{` + commandRun + `,"artifactInputs":[{"artifact":` + good + `,"path":"a"},{"artifact":` + good + `,"path":"a"}]}`, `spec.artifactInputs[1]: Duplicate value`},

		"affinity to everything":                        {affinity(`{"labelSelector":{},"topologyKey":"kruntimes.io/runtime-pod"}`), `labelSelector must not be empty: set matchLabels or matchExpressions`},
		"affinity to another key":                       {affinity(`{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"kubernetes.io/hostname"}`), `topologyKey: Unsupported value`},
		"affinity by an operator that is not there":     {affinity(selector(`{"key":"a","operator":"Nope"}`)), `operator: Unsupported value: "Nope"`},
		"affinity by a key with a blank":                {affinity(selector(`{"key":"a b","operator":"Exists"}`)), `matchExpressions[0].key: Invalid value`},
		"affinity by the values of Exists":              {affinity(selector(`{"key":"a","operator":"Exists","values":["b"]}`)), `values must be given with the operators In and NotIn, and only with them`},
		"affinity by In without values":                 {affinity(selector(`{"key":"a","operator":"In"}`)), `values must be given with the operators In and NotIn, and only with them`},
		"affinity by In with no value":                  {affinity(selector(`{"key":"a","operator":"In","values":[]}`)), `values must be given with the operators In and NotIn, and only with them`},
		"affinity by a value that is none":              {affinity(selector(`{"key":"a","operator":"In","values":["-"]}`)), `matchExpressions[0].values[0]: Invalid value`},
		"affinity by a label that is none":              {affinity(`{"labelSelector":{"matchLabels":{"a":"b c"}},"topologyKey":"kruntimes.io/runtime-pod"}`), `labelSelector.matchLabels.a: Invalid value`},
		"a preference by an operator that is not there": {`{` + commandRun + `,"affinity":{"runAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"runAffinityTerm":` + selector(`{"key":"a","operator":"nope"}`) + `}]}}}`, `operator: Unsupported value: "nope"`},
		"a preference without end":                      {`{` + commandRun + `,"affinity":{"runAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"runAffinityTerm":{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"kruntimes.io/runtime-pod"}}]}}}`, `weight`},
	})
}

func TestOnlyCancelAndTimeToLiveOfARunAreMutable(t *testing.T) {
	ns := shared.Namespace(t)
	const full = `{"runtime":"sh","source":{"inline":"true"},"mode":{"task":{"args":["a"]}},
		"affinity":{"runAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"kruntimes.io/runtime-pod"}]}},
		"env":[{"name":"A","value":"1"}],"resources":{"requests":{"runs":"1"}},"timeout":"1m","retryPolicy":{"maxAttempts":2}}`
	run := manifest(t, "Run", ns, "full", full)
	shared.Create(t, run)
	bare := manifest(t, "Run", ns, "bare", `{"runtime":"sh","source":{"inline":"true"}}`)
	shared.Create(t, bare)
	refused := map[string][]string{
		"runtime":        {`{"runtime":"other"}`},
		"source":         {`{"source":{"inline":"false"}}`, `{"source":null}`},
		"mode":           {`{"mode":{"task":{"args":["b"]}}}`, `{"mode":null}`},
		"workspace":      {`{"workspace":{"name":"v"}}`},
		"affinity":       {`{"affinity":null}`},
		"artifactInputs": {`{"artifactInputs":[{"path":"a","artifact":{"name":"a","driver":"Filesystem","type":"File","location":{"filesystem":{"path":"runs/0b6c1f0e-5a43-4a0e-8f0e-3a1d1b1c1d1e/artifacts/a"}}}}]}`},
		"env":            {`{"env":[{"name":"A","value":"2"}]}`, `{"env":null}`},
		"resources":      {`{"resources":{"requests":{"runs":"2"}}}`, `{"resources":null}`},
		"timeout":        {`{"timeout":"2m"}`, `{"timeout":null}`},
		"retryPolicy":    {`{"retryPolicy":{"maxAttempts":3}}`, `{"retryPolicy":null}`},
	}
	for field, patches := range refused {
		for _, patch := range patches {
			err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"spec":`+patch+`}`))
			expectError(t, field+" changed by "+patch, err, field+" is immutable: create a new Run")
			if field != "artifactInputs" && strings.Contains(patch, "null") {
				continue
			}
			if field == "source" || field == "runtime" || field == "mode" {
				continue
			}
			err = shared.Admin().Patch(t.Context(), bare.DeepCopy(), mergePatch(`{"spec":`+patch+`}`))
			expectError(t, field+" added by "+patch, err, field+" is immutable: create a new Run")
		}
	}
	steps := []struct{ patch, message string }{
		{`{"ttlSecondsAfterFinished":60}`, ""},
		{`{"ttlSecondsAfterFinished":null}`, ""},
		{`{"ttlSecondsAfterFinished":0,"cancelRequested":false}`, ""},
		{`{"cancelRequested":true}`, ""},
		{`{"cancelRequested":false}`, "cancelRequested cannot be taken back: create a new Run"},
		{`{"cancelRequested":null}`, "cancelRequested cannot be taken back: create a new Run"},
		{`{"ttlSecondsAfterFinished":1}`, ""},
	}
	for _, step := range steps {
		err := shared.Admin().Patch(t.Context(), run.DeepCopy(), mergePatch(`{"spec":`+step.patch+`}`))
		expectError(t, step.patch, err, step.message)
	}
}

// TestARunShowsAPhaseWithoutAWrite also looks at the other defaults.
func TestARunShowsAPhaseWithoutAWrite(t *testing.T) {
	ns := shared.Namespace(t)
	created := manifest(t, "Run", ns, "r", `{"runtime":"sh","source":{"inline":"true"}}`)
	created.Object["status"] = map[string]any{"phase": "Succeeded", "attempt": int64(7)}
	shared.Create(t, created)
	if phase, _, _ := unstructured.NestedString(created.Object, "status", "phase"); phase != "Pending" {
		t.Errorf("the answer to create shows phase %q, want Pending", phase)
	}
	run := &corev1alpha1.Run{}
	if err := shared.Admin().Get(t.Context(), client.ObjectKeyFromObject(created), run); err != nil {
		t.Fatal(err)
	}
	if run.ResourceVersion != created.GetResourceVersion() || run.Status.Phase != corev1alpha1.RunPending || run.Status.Attempt != 0 {
		t.Errorf("got %+v in version %s, want a pending Run in version %s", run.Status, run.ResourceVersion, created.GetResourceVersion())
	}
	if run.Spec.Mode.Task == nil {
		t.Errorf("got mode %+v, want task", run.Spec.Mode)
	}
	byPhase := &corev1alpha1.RunList{}
	if err := shared.Admin().List(t.Context(), byPhase, client.InNamespace(ns), client.MatchingFields{"status.phase": "Pending"}); err != nil {
		t.Fatal(err)
	}
	if len(byPhase.Items) != 1 {
		t.Errorf("%d Runs selected by status.phase=Pending, want 1", len(byPhase.Items))
	}
}
