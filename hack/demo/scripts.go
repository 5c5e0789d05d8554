package main

import corev1alpha1 "kruntimes.io/kruntimes/apis/core/v1alpha1"

// demoScripts lists the example scripts and what must come of each.
func demoScripts() []script {
	return []script{
		{
			name: "hello", runtime: "sh", file: "examples/scripts/hello.sh", args: []string{"Kubernetes"},
			phase: corev1alpha1.RunSucceeded, stdout: "Hello, Kubernetes\nThis is run hello in namespace default, attempt 1\n",
		},
		{
			name: "outputs", runtime: "sh", file: "examples/scripts/outputs.sh", phase: corev1alpha1.RunSucceeded,
			stdout: "wrote three outputs\n",
			outputs: map[string]corev1alpha1.OutputValue{
				"answer": "42", "sentence": " spaces, # and = are kept ", "poem": "first line\nsecond line",
			},
		},
		{
			name: "fail", runtime: "sh", file: "examples/scripts/fail.sh", exitCode: 3, phase: corev1alpha1.RunFailed,
			stdout: "about to fail\n",
		},
		{
			name: "report", runtime: "python", file: "examples/scripts/report.py", phase: corev1alpha1.RunSucceeded,
			stdout:  "  3 the\n",
			outputs: map[string]corev1alpha1.OutputValue{"word": "the", "times": "3"},
		},
	}
}
