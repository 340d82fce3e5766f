"""What reaches outside the submission: files, builds, processes, patches of others, calls that are not followed."""
