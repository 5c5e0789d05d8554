package workflow

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workflowsv1alpha1 "kruntimes.io/kruntimes/apis/workflows/v1alpha1"
	"kruntimes.io/kruntimes/krt/cli"
)

func definition(name string, spec workflowsv1alpha1.WorkflowSpec) *workflowsv1alpha1.Workflow {
	return &workflowsv1alpha1.Workflow{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"}, Spec: spec}
}

// callers is a Workflow whose jobs call others, with nothing handed over.
func callers(name string, uses ...string) *workflowsv1alpha1.Workflow {
	jobs := map[string]workflowsv1alpha1.Job{}
	for _, callee := range uses {
		jobs["call-"+callee] = workflowsv1alpha1.Job{Uses: callee}
	}
	return definition(name, workflowsv1alpha1.WorkflowSpec{Jobs: jobs})
}

// definitionsOfTeam are the definitions of the namespace in the tests.
func definitionsOfTeam() []client.Object {
	echo := []workflowsv1alpha1.Step{{Name: "say", Run: `echo "$WHO"`, Env: map[string]workflowsv1alpha1.EnvValue{"WHO": "${{ inputs.environment }}"}}}
	return []client.Object{
		definition("deploy", workflowsv1alpha1.WorkflowSpec{
			Inputs: map[string]workflowsv1alpha1.Input{
				"environment": {Required: true, Description: "where to"}, "version": {Default: ptr.To("1.0")}, "notes": {},
			},
			Outputs: map[string]workflowsv1alpha1.Output{"url": {Value: "${{ jobs.apply.outputs.url }}"}},
			Jobs: map[string]workflowsv1alpha1.Job{
				"apply":  {RunsOn: "sh", Steps: echo, Outputs: map[string]workflowsv1alpha1.Output{"url": {Value: "${{ inputs.version }}"}}},
				"verify": {Uses: "smoke", Needs: []string{"apply"}, With: map[string]workflowsv1alpha1.InputValue{"url": "${{ jobs.apply.outputs.url }}"}},
			},
		}),
		definition("smoke", workflowsv1alpha1.WorkflowSpec{
			Inputs: map[string]workflowsv1alpha1.Input{"url": {Required: true}},
			Jobs:   map[string]workflowsv1alpha1.Job{"get": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "a", Uses: "tools"}}}},
		}),
		&workflowsv1alpha1.Action{ObjectMeta: metav1.ObjectMeta{Name: "tools", Namespace: "team"},
			Spec: workflowsv1alpha1.ActionSpec{Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}}},
		callers("a", "b"), callers("b", "a"), callers("lost", "nowhere", "smoke"), callers("twice", "deploy", "smoke", "tools"),
		definition("broken", workflowsv1alpha1.WorkflowSpec{
			Inputs: map[string]workflowsv1alpha1.Input{"x": {Required: true}},
			Jobs: map[string]workflowsv1alpha1.Job{
				"one": {RunsOn: "sh", Needs: []string{"tow"}, Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "${{ inputs.y }}"}, {Name: "t", Uses: "gone"}}},
				"two": {RunsOn: "sh", Steps: []workflowsv1alpha1.Step{{Name: "s", Run: "true"}}},
			},
		}),
	}
}

// triggered is what came of one "krt workflow trigger".
type triggered struct {
	out, errOut string
	err         error
	created     []workflowsv1alpha1.WorkflowRun
	// reads counts the requests for each definition.
	reads map[string]int
}

func invokeTrigger(t *testing.T, in string, args ...string) triggered {
	t.Helper()
	got := triggered{reads: map[string]int{}}
	var out, errOut bytes.Buffer
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(definitionsOfTeam()...).
		WithObjects(&workflowsv1alpha1.WorkflowRun{ObjectMeta: metav1.ObjectMeta{Name: "taken", Namespace: "team"}}).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			got.reads[typeName(into)+" "+key.Name]++
			return c.Get(ctx, key, into, opts...)
		}}).Build()
	f := &cli.Factory{IO: genericiooptions.IOStreams{In: strings.NewReader(in), Out: &out, ErrOut: &errOut}, Name: "krt", Now: time.Now,
		ConfigFlags: genericclioptions.NewConfigFlags(true),
		Client:      func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
	cmd := NewCmd(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"trigger"}, args...))
	got.err = cmd.ExecuteContext(t.Context())
	got.out, got.errOut = out.String(), errOut.String()
	var list workflowsv1alpha1.WorkflowRunList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, run := range list.Items {
		if run.Name != "taken" {
			got.created = append(got.created, run)
		}
	}
	return got
}

func typeName(object client.Object) string {
	switch object.(type) {
	case *workflowsv1alpha1.Workflow:
		return "Workflow"
	case *workflowsv1alpha1.Action:
		return "Action"
	}
	return "other"
}

func TestTriggerCreates(t *testing.T) {
	const text = "a=b\n$(touch pwned) ${{ jobs.x }} '$"
	got := invokeTrigger(t, "environment: nowhere\nnotes: |\n  from the file\n", "workflow", "deploy", "--input-file", "-", "--input", "environment="+text)
	if got.err != nil || len(got.created) != 1 {
		t.Fatalf("error %v, created %v", got.err, got.created)
	}
	run := got.created[0]
	if got.out != run.Name+"\n" || !strings.HasPrefix(run.Name, "deploy-") || run.Name == "deploy-" {
		t.Errorf("stdout %q, name %q", got.out, run.Name)
	}
	if diff := cmp.Diff(map[string]string{workflowsv1alpha1.LabelWorkflow: "deploy"}, run.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"kruntimes.io/workflow-output.url": "${{ jobs.apply.outputs.url }}"}, run.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	want := map[string]workflowsv1alpha1.Job{
		"apply": {RunsOn: "sh", Outputs: map[string]workflowsv1alpha1.Output{"url": {Value: "1.0"}}, Steps: []workflowsv1alpha1.Step{
			{Name: "say", Run: `echo "$WHO"`, Env: map[string]workflowsv1alpha1.EnvValue{"WHO": "${{ 'a=b\n$(touch pwned) ${{ jobs.x }} ''$' }}"}}}},
		"verify": {Uses: "smoke", Needs: []string{"apply"}, With: map[string]workflowsv1alpha1.InputValue{"url": "${{ jobs.apply.outputs.url }}"}},
	}
	if diff := cmp.Diff(want, run.Spec.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestEachDefinitionIsReadOnce(t *testing.T) {
	got := invokeTrigger(t, "", "twice")
	want := map[string]int{"Workflow twice": 1, "Workflow deploy": 1, "Workflow smoke": 1, "Workflow tools": 1, "Action tools": 1}
	if diff := cmp.Diff(want, got.reads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTrigger(t *testing.T) {
	const refused = " cannot be triggered, and nothing was created:\n"
	file := filepath.Join(t.TempDir(), "inputs.yaml")
	if err := os.WriteFile(file, []byte("environment: x\nversion: 3.10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		in          string
		args        []string
		want        string
		wantErr     string
		wantCode    int
		wantCreated []string
	}{
		"a name":                     {args: []string{"deploy", "--name", "d1", "--input", "environment=x"}, want: "d1\n", wantCreated: []string{"d1"}},
		"quietly":                    {args: []string{"workflow/deploy", "-q", "--name", "d1", "--input", "environment=x"}, wantCreated: []string{"d1"}},
		"a name that is taken":       {args: []string{"deploy", "--name", "taken", "--input", "environment=x"}, wantErr: `there is a WorkflowRun "taken" in namespace "team" already`, wantCode: cli.ExitFailed},
		"a dry run":                  {args: []string{"deploy", "--input", "environment=x", "--dry-run", "-o", "jsonpath={.kind} {.metadata.generateName} {.metadata.namespace}"}, want: "WorkflowRun deploy- team"},
		"a dry run, on the server":   {args: []string{"deploy", "--name", "d1", "--input", "environment=x", "--dry-run=server", "-o", "name"}, want: "workflowrun.workflows.kruntimes.io/d1\n"},
		"a mode that stands alone":   {args: []string{"deploy", "--dry-run", "server"}, wantErr: `"server" stands alone, as if it were a name`, wantCode: cli.ExitUsage},
		"no Workflow":                {wantErr: "which Workflow?", wantCode: cli.ExitUsage},
		"two Workflows":              {args: []string{"deploy", "smoke"}, wantErr: "one Workflow at a time, but there are 2 names", wantCode: cli.ExitUsage},
		"one that is not there":      {args: []string{"deplo"}, wantErr: `there is no Workflow "deplo" in namespace "team"`, wantCode: cli.ExitFailed},
		"a dry run to follow":        {args: []string{"deploy", "--dry-run", "--follow"}, wantErr: "--dry-run creates nothing, so there is nothing to --follow", wantCode: cli.ExitUsage},
		"a pair that is none":        {args: []string{"deploy", "--input", "environment"}, wantErr: "--input environment has no value", wantCode: cli.ExitUsage},
		"numbers in the file":        {args: []string{"deploy", "--input-file", file}, wantErr: "the inputs in " + file + " are not valid:\n" + file + `:2:10: version: must be text, and 3.10 is a number: quote it, as in "3.10"`, wantCode: cli.ExitUsage},
		"wrong inputs, all of them":  {args: []string{"deploy", "--input", "environmant=x", "--input", "zzz=1"}, wantCode: cli.ExitUsage, wantErr: "Workflow deploy" + refused + "--input: Workflow \"deploy\" requires the input \"environment\": give it a value\n--input environmant: \"environmant\" is not an input of Workflow \"deploy\": did you mean \"environment\"?\n--input zzz: \"zzz\" is not an input of Workflow \"deploy\": remove it, or declare it in the inputs there"},
		"a cycle":                    {args: []string{"a"}, wantCode: cli.ExitFailed, wantErr: "Workflow a" + refused + "spec.jobs[call-b].uses: workflow call cycle: a -> b -> a"},
		"a callee that is not there": {args: []string{"lost"}, wantCode: cli.ExitFailed, wantErr: "Workflow lost" + refused + "spec.jobs[call-nowhere].uses: there is no Workflow \"nowhere\" in this namespace\nspec.jobs[call-smoke].with: Workflow \"smoke\" requires the input \"url\": give it a value"},
		"a Workflow that is wrong in every way": {args: []string{"broken", "--input", "z=1"}, wantCode: cli.ExitFailed, wantErr: "Workflow broken" + refused +
			"spec.jobs[one].needs[0]: \"tow\" is not a job of this Workflow: did you mean \"two\"?\n" +
			"spec.jobs[one].steps[0].run: line 1, column 1: ${{ inputs.y }}: \"y\" is not an input of this Workflow: declare it in spec.inputs\n" +
			"spec.jobs[one].steps[1].uses: there is no Action \"gone\" in this namespace\n" +
			"--input: Workflow \"broken\" requires the input \"x\": give it a value\n--input z: \"z\" is not an input of Workflow \"broken\": remove it, or declare it in the inputs there"},
		"a value that makes the jobs too large": {args: []string{"deploy", "--input", "environment=" + strings.Repeat("x", 64<<10)}, wantCode: cli.ExitFailed, wantErr: "Workflow deploy" + refused +
			"spec.jobs[apply].steps[0].env[WHO]: line 1, column 1: ${{ inputs.environment }}: the text would have 65536 characters with all inputs in it, and may have 32768: hand over shorter inputs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := invokeTrigger(t, tc.in, tc.args...)
			gotErr := ""
			if got.err != nil {
				gotErr = got.err.Error()
			}
			if diff := cmp.Diff([]string{tc.want, "", tc.wantErr}, []string{got.out, got.errOut, gotErr}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if code := cli.ExitCode(got.err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			var created []string
			for _, run := range got.created {
				created = append(created, run.Name)
			}
			if diff := cmp.Diff(tc.wantCreated, created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

// What cannot be read is no verdict on the Workflow.
func TestTriggerTellsThatADefinitionCannotBeRead(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(definitionsOfTeam()...).
		WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if key.Name == "tools" {
				return errors.New("no answer")
			}
			return c.Get(ctx, key, into, opts...)
		}}).Build()
	f := &cli.Factory{IO: genericiooptions.NewTestIOStreamsDiscard(), Name: "krt", Now: time.Now, ConfigFlags: genericclioptions.NewConfigFlags(true),
		Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
	cmd := NewCmd(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"trigger", "deploy", "--input", "environment=x"})
	want := `checking what Workflow deploy calls: reading Action "tools": asking the cluster: no answer`
	if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestInputsAreCompleted(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(cli.NewScheme()).WithObjects(definitionsOfTeam()...).Build()
	f := &cli.Factory{Client: func() (client.WithWatch, error) { return c, nil }, Namespace: func() (string, error) { return "team", nil }}
	cases := map[string][]string{
		"deploy --input ":                   {"environment=\twhere to", "notes=", "version=\tdefault: 1.0"},
		"deploy --input v":                  {"version=\tdefault: 1.0"},
		"deploy --input notes=x --input n":  nil,
		"deploy --input environment=stagi":  nil,
		"smoke --input ":                    {"url=\trequired"},
		"nowhere --input ":                  nil,
		"workflow smoke --input ":           {"url=\trequired"},
		"dep":                               {"deploy"},
		"deploy smo":                        nil,
		"deploy --dry-run=server --input v": {"version=\tdefault: 1.0"},
	}
	for line, want := range cases {
		t.Run(line, func(t *testing.T) {
			var out bytes.Buffer
			cmd := NewCmd(f)
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"__complete", "trigger"}, strings.Split(line, " ")...))
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for offered := range strings.Lines(out.String()) {
				if offered = strings.TrimSuffix(offered, "\n"); !strings.HasPrefix(offered, ":") {
					got = append(got, offered)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
